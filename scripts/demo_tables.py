"""Read the demo's result as a user could: Parquet files, and Airflow's Variable."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.record_text import variable_key

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's size.

    :param events: different events in it; as many as rows, unless something went wrong.
    """

    rows: int
    events: int


def count(lake: Path, name: str) -> Table:
    """Rows of a table, all read; none where there is no such table yet."""
    if not (lake / name).is_dir():
        return Table(rows=0, events=0)
    import pyarrow.compute as pc

    # A replay id names a place on the bus, so that no two events have the same one.
    ids = _dataset(lake, name).to_table(columns=["replay_id"]).column("replay_id")
    return Table(rows=len(ids), events=pc.count_distinct(ids).as_py())


def tables(lake: Path) -> list[str]:
    """Names of the tables below a root."""
    if not lake.is_dir():
        return []
    return sorted(
        path.name for path in lake.iterdir() if path.is_dir() and path.name[0] not in "_."
    )


def newest(lake: Path, name: str, columns: list[str], most: int) -> list[tuple[Any, ...]]:
    """The last rows of a table, in the order of their landing."""
    order = [("batch_number", "ascending"), ("batch_ordinal", "ascending")]
    found = _dataset(lake, name).to_table().sort_by(order).select(columns)
    return [tuple(row.values()) for row in found.slice(max(0, len(found) - most)).to_pylist()]


def position(database: Path, consumer: str, topic: str) -> Position | None:
    """Read a consumer's position from its Airflow Variable; None before its first batch.

    It is read from the database file, which the demo keeps unencrypted, because `airflow variables
    get` would take five seconds.
    """
    key = variable_key(consumer, topic)
    with contextlib.closing(sqlite3.connect(database)) as opened:
        row = opened.execute("SELECT val FROM variable WHERE key = ?", (key,)).fetchone()
    found = Position.from_json(row[0], f"Variable {key}") if row else None
    return found if found and found.batch_number else None


def _dataset(lake: Path, name: str) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(lake / name, format="parquet", partitioning="hive")
