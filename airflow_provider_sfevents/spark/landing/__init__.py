"""Landing of a staged batch: decode, write beside the tables, compare, publish, record."""
