"""Rules that apply change events to records: decisions on plain values, without I/O or Spark."""
