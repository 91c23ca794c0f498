"""Upkeep of tables: compaction, expiry of old versions, removal of files that no version needs."""
