"""The Streaming API: events over CometD long polling, as older clients read them."""
