"""SQL of the MERGE of each table; a run commits one MERGE for each table.

A run reads its token before it commits, and not in the same moment. So each statement that changes
or removes rows also compares the rows' order in its condition, and leaves rows that a later run has
written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.schema.envelope import GONE
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ENTRY_ORDER = ("last_generation", "last_batch_number", "last_ordinal", "cause_at")
"""An entry's last cause, and its time: both only grow while the entry stands."""


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
    within: str = "",
    removes: bool = False,
    partial: str = "",
    partly: Collection[str] = (),
) -> str:
    """Make a MERGE that adds, changes and removes rows of a table by their keys.

    :param target: quoted; `source` is a view's name.
    :param columns: of a row that is new; none: no row is.
    :param updates: columns to set of a row that is there; none: it stays.
    :param when: a condition; rows that are there change only where it holds.
    :param within: a condition that the table's rows of the source's keys fulfil, to read fewer
        files.
    :param removes: the source says by `GONE` that a row goes.
    :param partial: a boolean column of the source. Where it is true, the row that is there keeps
        its values of the columns `partly`, and no row is added.
    """
    on = " AND ".join(
        [*([within] if within else ()), *(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)]
    )
    said = [f"MERGE INTO {target} t USING {source} s ON {on}"]
    also = f" AND ({when})" if when else ""
    if removes:
        said.append(f"WHEN MATCHED AND s.{GONE}{also} THEN DELETE")
    if updates:
        values = {name: f"s.{quoted(name)}" for name in updates}
        values |= {
            name: f"CASE WHEN s.{partial} THEN t.{quoted(name)} ELSE {values[name]} END"
            for name in partly
        }
        pairs = ", ".join(f"t.{quoted(name)} = {value}" for name, value in values.items())
        said.append(f"WHEN MATCHED{also} THEN UPDATE SET {pairs}")
    if columns:
        names = ", ".join(map(quoted, columns))
        given = ", ".join(f"s.{quoted(name)}" for name in columns)
        flags = [GONE] * removes + [partial] * bool(partly)
        is_new = "".join(f" AND NOT s.{flag}" for flag in flags)
        inserts = f"INSERT ({names}) VALUES ({given})"  # noqa: S608 - all of it is quoted
        said.append(f"WHEN NOT MATCHED{is_new} THEN {inserts}")
    return " ".join(said)


def take(target: str, source: str) -> str:
    """Write a run's token into the row of `applied_through`, unless another run changed the row."""
    through, writer, entities = tables.APPLIED_THROUGH, tables.WRITER, tables.ENTITIES
    return (
        f"MERGE INTO {target} t USING {source} s ON true "  # noqa: S608 - as above
        f"WHEN MATCHED AND t.{through} <=> s.{through} AND t.{entities} <=> s.{entities} "
        f"THEN UPDATE SET t.{writer} = s.{writer} "
        f"WHEN NOT MATCHED AND s.{through} IS NULL THEN INSERT ({through}, {writer}) VALUES "
        f"(null, s.{writer})"
    )


def advance(target: str, source: str) -> str:
    """Advance the single row of `applied_through`, if the run's token is still there."""
    through, writer, entities = tables.APPLIED_THROUGH, tables.WRITER, tables.ENTITIES
    return (
        f"MERGE INTO {target} t USING {source} s ON t.{writer} = s.{writer} "
        f"WHEN MATCHED THEN UPDATE SET t.{through} = s.{through}, t.{entities} = s.{entities}"
    )
