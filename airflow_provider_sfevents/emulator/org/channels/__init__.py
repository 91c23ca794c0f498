"""Custom channels: members, filters, and the events that a channel carries."""
