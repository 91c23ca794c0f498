"""The SQL query that finds events of an attempt that are already in the tables.

Plain text from plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Iterable

NATURAL = {
    "entityName": ("string",),
    "transactionKey": ("string",),
    "sequenceNumber": ("int", "long"),
    "changeType": ("string",),
    "recordIds": ("array",),
}
"""Members of a header that together identify a change event, and the kinds that each may have."""

IDENTITY, TABLE, KIND = "identity", "compared_table", "kind"
OURS, KNOWN, LANDED = range(3)
"""Kinds of rows: events that were written, identities that others have landed, rows of this very
batch.
"""

_HEADER_SQL = (
    f"{HEADER} struct<entityName: string, transactionKey: string, sequenceNumber: bigint, "
    "changeType: string, recordIds: array<string>>"
)
_ROW_SQL = (
    f"{envelope.EVENT_ID} string, {envelope.ORG_ID} string, {envelope.TOPIC} string, "
    f"{envelope.BATCH_ID} string, {envelope.ORDINAL} bigint"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows to compare, of one table or of many.

    :param view: name of a view of the rows, with the columns of `columns` and `TABLE`.
    :param natural: they have the columns that identify a change event without an event id.
    """

    view: str
    natural: bool


def columns(*, natural: bool) -> str:
    """Columns that the query needs of each row beside its table, as DDL."""
    return f"{_ROW_SQL}, {_HEADER_SQL}" if natural else _ROW_SQL


def paths(*, natural: bool) -> list[str]:
    """Paths of these columns in a Parquet file."""
    of_header = [f"{HEADER}.{name}" for name in NATURAL] if natural else []
    return [*(one.split()[0] for one in _ROW_SQL.split(", ")), *of_header]


def comparison(
    written: Iterable[Rows], known: Iterable[Rows], org_id: str, topic: str, batch_id: str
) -> str:
    """Select the identities of written events, and those of them that have landed, in one query.

    All tables are compared in one join, because each further join costs Spark a job. An identity
    that has landed in one table and was written for another one is selected as well, and so are
    the rows of this very batch, which may have no identity. Neither are many more than the batch
    has, so they are not made distinct, which would take another stage.
    """
    ours = " UNION ALL ".join(
        f"SELECT {TABLE}, {IDENTITY}, {envelope.ORDINAL} "  # noqa: S608 - all is quoted
        f"FROM {_identified(rows)}"
        for rows in written
    )
    query = f"SELECT {TABLE}, {OURS} AS {KIND}, {IDENTITY}, {envelope.ORDINAL} FROM ({ours})"  # noqa: S608
    landed = " UNION ALL ".join(_landed(rows, org_id, topic) for rows in known)
    if not landed:
        return query
    is_ours = f"k.{envelope.BATCH_ID} = {text(batch_id)}"
    return (
        f"{query} UNION ALL "  # noqa: S608 - as above
        f"SELECT k.{TABLE}, if({is_ours}, {LANDED}, {KNOWN}) AS {KIND}, "
        f"if({is_ours}, '', k.{IDENTITY}) AS {IDENTITY}, "
        f"CAST(NULL AS BIGINT) AS {envelope.ORDINAL} FROM ({landed}) k WHERE {is_ours} "
        f"OR EXISTS (SELECT 1 FROM ({ours}) w WHERE w.{IDENTITY} = k.{IDENTITY})"
    )


def _landed(rows: Rows, org_id: str, topic: str) -> str:
    """Select the identities of a topic's landed rows; a row without one is selected, too."""
    return (
        f"SELECT {TABLE}, {envelope.BATCH_ID}, {IDENTITY} "  # noqa: S608 - all is quoted
        f"FROM {_identified(rows, without=True)} "
        f"WHERE {envelope.ORG_ID} = {text(org_id)} AND {envelope.TOPIC} = {text(topic)} "
        f"AND {envelope.BATCH_ID} IS NOT NULL"
    )


def _identified(rows: Rows, *, without: bool = False) -> str:
    """Spell rows with their identities, of which a change event may have two.

    :param without: rows without an identity, too.
    """
    event_id = envelope.EVENT_ID
    if not rows.natural:
        some = "" if without else f" WHERE {event_id} <> ''"
        return f"(SELECT *, nullif({event_id}, '') AS {IDENTITY} FROM {rows.view}{some})"  # noqa: S608
    members = [f"{HEADER}.{quoted(name)}" for name in NATURAL]
    whole = " AND ".join(f"{member} IS NOT NULL" for member in members)
    *single, record_ids = members
    texts = ", ".join(f"CAST({member} AS STRING)" for member in single)
    found = (
        f"nullif({event_id}, '')",
        f"CASE WHEN {whole} AND {HEADER}.transactionKey <> '' "
        f"THEN to_json(concat(array({texts}), {record_ids})) END",
    )
    outer = "OUTER " if without else ""
    return (
        f"{rows.view} LATERAL VIEW {outer}explode(array_compact(array({', '.join(found)}))) "
        f"AS {IDENTITY}"
    )
