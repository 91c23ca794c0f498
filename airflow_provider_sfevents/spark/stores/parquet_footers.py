"""Contents of a Parquet file by its footer, read without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """Contents of a Parquet file by its footer.

    :param low: smallest value of a column; None: it has no value, or was not asked for; `high` its
        largest.
    """

    rows: int
    low: int | None = None
    high: int | None = None


def footer_of(source: Any, column: str = "") -> Footer:
    """Read a footer.

    :param source: path of a local file, or an open file.
    :param column: whose range is wanted: one of integers; empty: none.
    :raises OSError: it cannot be read; `pyarrow.ArrowException` if it is no Parquet file.
    """
    import pyarrow.parquet as pq

    found = pq.read_metadata(source)
    low, high = _range(found, column) if column else (None, None)
    return Footer(rows=found.num_rows, low=low, high=high)


def _range(metadata: Any, column: str) -> tuple[int | None, int | None]:
    """Smallest and largest value of a column of integers, by the statistics of a footer."""
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    place = paths.index(column)
    groups = (metadata.row_group(at).column(place) for at in range(metadata.num_row_groups))
    known = [one.statistics for one in groups if one.is_stats_set and one.statistics.has_min_max]
    if not known:
        return None, None
    return min(one.min_raw for one in known), max(one.max_raw for one in known)
