"""Contents of a Parquet file by its footer. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """Contents of a Parquet file by its footer.

    :param low: smallest value of a column; None: it has no value, or was not asked for; `high` its
        largest.
    """

    rows: int
    low: int | None = None
    high: int | None = None
