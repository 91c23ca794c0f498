"""Object types of an org: their fields, the values of a field, and how a type changes."""
