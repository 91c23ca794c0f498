"""Tables of formats with commits: a MERGE for each table, their ledger, and conflicts."""
