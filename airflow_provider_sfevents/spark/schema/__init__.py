"""Columns of event tables: types of fields, their evolution, what is recorded of them. No I/O, no Spark."""
