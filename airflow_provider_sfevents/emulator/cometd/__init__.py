"""The Streaming API: events over CometD long polling, for older clients."""
