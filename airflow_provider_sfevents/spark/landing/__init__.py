"""Landing of one staged batch: decode, write beside the tables, compare, bring in, record in the ledger."""
