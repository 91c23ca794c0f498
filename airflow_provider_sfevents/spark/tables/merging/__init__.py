"""Tables of formats with commits: a statement for each table, their ledger, and conflicts."""
