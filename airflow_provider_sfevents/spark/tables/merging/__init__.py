"""Tables of formats with commits: a MERGE for each table, their ledger, and commits that meet others."""
