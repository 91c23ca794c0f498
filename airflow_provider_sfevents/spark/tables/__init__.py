"""The formats a batch can land in: Parquet, Delta, Iceberg.

One face (`interface.Tables`), chosen in `opening`.
"""

from __future__ import annotations
