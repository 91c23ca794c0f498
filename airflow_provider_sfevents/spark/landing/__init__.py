"""Landing of a staged batch: decode, write beside the tables, compare, bring in, record."""
