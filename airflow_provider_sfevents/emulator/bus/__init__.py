"""The event bus of one org: topics, schemas, replay ids, stored events and their journal."""
