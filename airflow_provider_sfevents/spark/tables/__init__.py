"""Tables in the formats that a batch can land in: Parquet, Delta, Iceberg.

All implement `interface.Tables`; `opening` chooses.
"""

from __future__ import annotations
