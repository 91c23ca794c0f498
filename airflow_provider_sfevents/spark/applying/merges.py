"""The MERGE of each table, as text: one for each table is all that a run commits.

A job may stall between its last look at the other jobs and its commit, while another job applies
the same batch and later ones. So each statement that changes or removes rows says in its own
condition how far the job has come, and leaves what a later job has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.envelope import GONE
from airflow_provider_sfevents.spark.fieldtypes import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

BEFORE = "applied_before"


MARK_ORDER = ("last_generation", "last_sequence", "last_ordinal", "gap_at")
"""A mark's last cause, and its time: both only grow while the mark stands."""


def forward(names: Sequence[str] = tables.ORDER) -> str:
    """Condition that the source's row is not older than the table's.

    :param names: columns that rows are ordered by.
    """
    table, source = (f"struct({', '.join(f'{one}.{name}' for name in names)})" for one in "ts")
    return f"{table} <= {source}"


def merge(
    target: str,
    source: str,
    *,
    keys: Sequence[str],
    columns: Sequence[str] = (),
    updates: Sequence[str] = (),
    when: str = "",
    removes: bool = False,
) -> str:
    """Bring rows into a table.

    :param target: quoted; `source` is a view's name.
    :param columns: of a row that is new; none: no row is.
    :param updates: columns to set of a row that is there; none: it stays.
    :param when: a condition; rows that are there change only where it holds.
    :param removes: the source says by `GONE` that a row goes.
    """
    on = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)
    said = [f"MERGE INTO {target} t USING {source} s ON {on}"]
    also = f" AND ({when})" if when else ""
    if removes:
        said.append(f"WHEN MATCHED AND s.{GONE}{also} THEN DELETE")
    if updates:
        pairs = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in updates)
        said.append(f"WHEN MATCHED{also} THEN UPDATE SET {pairs}")
    if columns:
        names = ", ".join(map(quoted, columns))
        values = ", ".join(f"s.{quoted(name)}" for name in columns)
        not_gone = f" AND NOT s.{GONE}" if removes else ""
        said.append(f"WHEN NOT MATCHED{not_gone} THEN INSERT ({names}) VALUES ({values})")  # noqa: S608 - all of it is quoted
    return " ".join(said)


def replace_all(
    target: str, source: str, *, keys: Sequence[str], columns: Sequence[str], when: str
) -> str:
    """Make a small table hold the source's rows, and no others of which a condition holds."""
    said = merge(target, source, keys=keys, columns=columns)
    return f"{said} WHEN NOT MATCHED BY SOURCE AND {when} THEN DELETE"


def advance(target: str, source: str) -> str:
    """Put the one row of `applied_through` forward, if it still says what it said before."""
    name = tables.PROGRESS_SQL.split()[0]
    return (
        f"MERGE INTO {target} t USING {source} s ON t.{name} = s.{BEFORE} "  # noqa: S608 - as above
        f"WHEN MATCHED THEN UPDATE SET t.{name} = s.{name} "
        f"WHEN NOT MATCHED AND s.{BEFORE} IS NULL THEN INSERT ({name}) VALUES (s.{name})"
    )
