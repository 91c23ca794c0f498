"""Conversion between table rows and the values that the rules take. No I/O, no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes import serial, tables
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.record import RecordState
from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.schema.field_types import Column

ROW_NAMES = tuple(column.split()[0] for column in tables.ROW_SQL.split(", "))
ENTRY_NAMES = tuple(column.split()[0] for column in tables.RESYNC_SQL.split(", ")[2:])

_ORDER_PARTS = {
    prefix: tuple(f"{prefix}_{part}" for part in EventOrder._fields)
    for prefix in ("applied", "event", "since", "last", "seen", "settled")
}

VALID_FROM, VALID_TO, WAS_READ = "valid_from", "valid_to", "was_read"


def fields_sql(layout: Layout) -> str:
    return ", ".join(f"{quoted(column.name)} {column.type.sql()}" for column in layout.columns)


def row_sql(layout: Layout) -> str:
    """Columns of an entity's table."""
    return _joined(tables.ROW_SQL, fields_sql(layout))


def history_sql(layout: Layout) -> str:
    """Columns of an entity's history.

    The key is record, order and beginning: several snapshots after one event have that event's
    order.
    """
    times = f"{VALID_FROM} timestamp, {VALID_TO} timestamp"
    own = f"{tables.RECORD_ID} string, {tables.ORDER_SQL}, {times}, {WAS_READ} boolean"
    return _joined(own, fields_sql(layout))


def order_of(row: Mapping[str, Any], prefix: str = "applied") -> EventOrder:
    """Read an event's order from three columns of a row.

    :param prefix: of the three columns: `applied`, `event`, `since`, `last`, `seen`.
    """
    generation, batch_number, ordinal = _ORDER_PARTS[prefix]
    return EventOrder(row[generation], row[batch_number], row[ordinal])


def order_parts(order: EventOrder, prefix: str = "applied") -> dict[str, int]:
    return dict(zip(_ORDER_PARTS[prefix], order, strict=True))


def state_of(row: Mapping[str, Any], columns: Iterable[Column]) -> RecordState:
    """Make a record's state from its row, with the values of some columns."""
    return RecordState(
        values={column.name: row.get(column.name) for column in columns},
        deleted=bool(row[tables.IS_DELETED]),
        order=order_of(row),
        committed_at=row[tables.COMMITTED_AT],
        read_at=row[tables.READ_AT],
    )


def buried(row: Mapping[str, Any]) -> RecordState:
    """Make a record's state from its tombstone."""
    return state_of({**row, tables.IS_DELETED: True}, ())


def state_row(state: RecordState) -> dict[str, Any]:
    """Columns of a row that hold the state, without the record's id and values."""
    return {
        tables.IS_DELETED: state.deleted,
        **order_parts(state.order),
        tables.COMMITTED_AT: state.committed_at,
        tables.READ_AT: state.read_at,
    }


def entry_of(row: Mapping[str, Any]) -> ResyncEntry:
    return ResyncEntry(
        since=order_of(row, "since"),
        last=order_of(row, "last"),
        cause_at=row["cause_at"],
        reasons=tuple(row["resync_reasons"]),
        detail=row["resync_detail"] or "",
    )


def entry_row(entry: ResyncEntry) -> dict[str, Any]:
    return {
        **order_parts(entry.since, "since"),
        **order_parts(entry.last, "last"),
        "cause_at": entry.cause_at,
        "resync_reasons": list(entry.reasons),
        "resync_detail": entry.detail,
    }


def kept_row(change: Change) -> dict[str, Any]:
    return {
        **order_parts(change.order, "event"),
        tables.COMMITTED_AT: change.committed_at,
        "event_text": serial.to_text(change),
    }


def unapplied_row(change: Change, reason: str) -> dict[str, Any]:
    return {
        **order_parts(change.order, "event"),
        "quarantine_reason": reason,
        "event_text": serial.to_text(change),
    }


def _joined(own: str, fields: str) -> str:
    return f"{own}, {fields}" if fields else own
