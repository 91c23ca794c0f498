"""An org: its objects, records and channels, and the verbs of a test."""
