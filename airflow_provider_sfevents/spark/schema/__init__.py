"""Event schemas as table columns: types, evolution, records of columns. No I/O, no Spark."""
