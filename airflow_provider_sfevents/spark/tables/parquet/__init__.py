"""Parquet tables: files that are renamed into place, their ledger, and files of other writers."""
