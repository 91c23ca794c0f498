"""Records of an org: edits, transactions, and the change events that they publish."""
