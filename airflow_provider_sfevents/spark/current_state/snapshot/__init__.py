"""Entity snapshots: full records from the org that answer resync entries and fill new tables."""
