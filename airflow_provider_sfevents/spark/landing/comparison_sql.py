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
    from collections.abc import Iterable, Sequence

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
    f"changeType: string, "
    "recordIds: array<string>>"
)
_ROW_SQL = (
    f"{envelope.EVENT_ID} string, {envelope.ORG_ID} string, {envelope.TOPIC} string, "
    f"{envelope.BATCH_ID} string, {envelope.ORDINAL} bigint"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows to compare.

    :param view: name of a view of the rows, with the columns of `columns`.
    :param natural: they have the columns that identify a change event without an event id.
    """

    view: str
    natural: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """Rows that were written for a table, and landed rows that may be the same events.

    :param own: rows of the table itself; None: there are none.
    :param others: rows of other tables.
    """

    table: str
    written: Rows
    own: Rows | None
    others: Sequence[Rows]


def columns(*, natural: bool) -> str:
    """Columns that the query needs of each row, as DDL."""
    return f"{_ROW_SQL}, {_HEADER_SQL}" if natural else _ROW_SQL


def comparison(tables: Iterable[TableComparison], org_id: str, topic: str, batch_id: str) -> str:
    """Select the identities of written events, and those of them that have landed, in one query."""
    source = (
        f"{envelope.ORG_ID} = {text(org_id)} AND {envelope.TOPIC} = {text(topic)} "
        f"AND {envelope.BATCH_ID} IS NOT NULL"
    )
    found: list[str] = []
    for one in tables:
        found.append(_ours(one))
        if one.own is not None:
            found.append(_known(one, one.own, source, batch_id, is_own=True))
        found += [_known(one, rows, source, batch_id, is_own=False) for rows in one.others]
    return " UNION ALL ".join(found)


def _ours(one: TableComparison) -> str:
    return (
        f"SELECT {text(one.table)} AS {TABLE}, {OURS} AS {KIND}, {IDENTITY}, "  # noqa: S608 - all is quoted
        f"{envelope.ORDINAL} "
        f"FROM {one.written.view} LATERAL VIEW explode({_identities(one.written)}) AS {IDENTITY}"
    )


def _known(one: TableComparison, rows: Rows, source: str, batch_id: str, *, is_own: bool) -> str:
    """Select identities that other batches have landed.

    Rows of this very batch, which may have no identity, are selected as well.
    """
    ours = f"k.{envelope.BATCH_ID} = {text(batch_id)}"
    written = (
        f"SELECT {IDENTITY} FROM {one.written.view} "  # noqa: S608 - as above
        f"LATERAL VIEW explode({_identities(one.written)}) AS {IDENTITY}"
    )
    wanted = (
        f"NOT {ours} AND EXISTS (SELECT 1 FROM ({written}) w WHERE w.{IDENTITY} = k.{IDENTITY})"  # noqa: S608 - as above
    )
    return (
        f"SELECT if({ours}, '', {text(one.table)}) AS {TABLE}, "  # noqa: S608 - as above
        f"if({ours}, {LANDED}, {KNOWN}) AS {KIND}, if({ours}, '', k.{IDENTITY}) AS {IDENTITY}, "
        f"CAST(NULL AS BIGINT) AS {envelope.ORDINAL} "
        f"FROM (SELECT {envelope.BATCH_ID}, {IDENTITY} FROM {rows.view} "
        f"LATERAL VIEW OUTER explode({_identities(rows)}) AS {IDENTITY} WHERE {source}) k "
        f"WHERE {f'{ours} OR ({wanted})' if is_own else wanted}"
    )


def _identities(rows: Rows) -> str:
    """Spell the identities that a row has, as an array."""
    event_id = envelope.EVENT_ID
    found = [f"CASE WHEN {event_id} <> '' THEN {event_id} END"]
    if rows.natural:
        members = [f"{HEADER}.{quoted(name)}" for name in NATURAL]
        whole = " AND ".join(f"{member} IS NOT NULL" for member in members)
        pairs = ", ".join(
            f"{text(name)}, {member}" for name, member in zip(NATURAL, members, strict=True)
        )
        found.append(
            f"CASE WHEN {whole} AND {HEADER}.transactionKey <> '' THEN "
            f"to_json(named_struct({pairs})) END"
        )
    return f"array_compact(array({', '.join(found)}))"
