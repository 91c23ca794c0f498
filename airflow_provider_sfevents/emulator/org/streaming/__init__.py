"""PushTopics and generic channels: records of an org that make topics of the Streaming API."""
