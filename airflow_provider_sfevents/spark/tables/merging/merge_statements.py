"""Statements that land a batch in Delta and Iceberg tables, and remove one that is gone.

Plain text from plain values.

Each landing is a MERGE, also the first one: two concurrent appends would both succeed, but of two
MERGEs the second fails, because the first changed what it had read, and is retried. The MERGE
compares only the rows of this batch, on the dates where it has or had rows, so that other files are
not opened. Rows that the batch no longer has are in the source, marked `gone`. (`WHEN NOT MATCHED
BY SOURCE` would be shorter, but Spark then reads, and for Iceberg rewrites, the whole table.)

In Delta a batch that lands for the first time is an INSERT that reads its own table (`insert`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

IS_THERE = "sfevents: the table has rows of the batch"
"""In the error of an INSERT that has added nothing."""

_MOST_DATES = 200


def merge(
    target: str, source: str, columns: Sequence[str], batch_id: str, dates: Collection[str]
) -> str:
    """Make the statement that replaces the rows of a batch by those of the source.

    :param target: quoted.
    :param source: a view, or a query in parentheses, with the columns and `envelope.GONE`.
    :param dates: ISO-8601, those of the source's rows and those of the rows that are there.
    """
    ours = of_batch(batch_id, dates, "t.")
    pairs = [(f"t.{quoted(name)}", f"s.{quoted(name)}", quoted(name)) for name in columns]
    return (
        f"MERGE INTO {target} t USING {source} s ON {ours} AND t.{envelope.ORDINAL} = "  # noqa: S608 - all is quoted
        f"s.{envelope.ORDINAL} "
        f"WHEN MATCHED AND s.{envelope.GONE} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET "
        f"{', '.join(f'{left} = {right}' for left, right, _ in pairs)} "
        f"WHEN NOT MATCHED AND NOT s.{envelope.GONE} "
        f"THEN INSERT ({', '.join(name for *_, name in pairs)}) "
        f"VALUES ({', '.join(right for _, right, _ in pairs)})"
    )


def insert(
    target: str, source: str, columns: Sequence[str], batch_id: str, dates: Collection[str]
) -> str:
    """Make the statement that adds the rows of a batch to a table that has none of them."""
    there = f"SELECT {envelope.ORDINAL} FROM {target} WHERE {of_batch(batch_id, dates)}"  # noqa: S608 - all of it is quoted
    return insert_unless_there(target, source, columns, envelope.ORDINAL, there)


def insert_unless_there(
    target: str, source: str, columns: Sequence[str], key: str, there: str
) -> str:
    """Make the statement that adds all rows of the source, or fails with `IS_THERE`.

    It has fewer jobs than a MERGE. Delta keeps two of them apart as it does two MERGEs, since each
    has read the table that it adds to.

    :param key: column of the source, in SQL.
    :param there: query for the keys that the target has.
    """
    names = ", ".join(map(quoted, columns))
    return (
        f"INSERT INTO {target} ({names}) SELECT {names} FROM {source} "  # noqa: S608 - all of it is quoted
        f"LEFT JOIN ({there}) t (sfevents_there) ON sfevents_there = {key} "
        f"WHERE assert_true(sfevents_there IS NULL, {text(IS_THERE)}) IS NULL"
    )


def delete(target: str, batch_id: str, dates: Collection[str]) -> str:
    return f"DELETE FROM {target} WHERE {of_batch(batch_id, dates)}"  # noqa: S608 - as above


def of_batch(batch_id: str, dates: Collection[str], prefix: str = "") -> str:
    """Condition for the rows of a batch; its dates let the format skip files."""
    return f"{prefix}{envelope.BATCH_ID} = {text(batch_id)} AND {on_dates(dates, prefix)}"


def on_dates(dates: Collection[str], prefix: str = "") -> str:
    name = f"{prefix}{envelope.EVENT_DATE}"
    days = [f"DATE{text(date)}" for date in sorted(dates)]
    if not days:
        return "false"
    if len(days) > _MOST_DATES:
        return f"{name} BETWEEN {days[0]} AND {days[-1]}"
    return f"{name} IN ({', '.join(days)})"
