"""Convert rows of event tables and quarantine to the events that the rules take.

1. An event travels as columns to where it is folded: its header's parts (`EVENTS_SQL`), and its
   values as a struct of the columns of its entity's table (`values_column`). Values are taken over
   column by column, without being read.
2. An event that is set aside is JSON text (`serial`, which says why).
"""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_sfevents.spark.avro.arrow_columns import arrow_type
from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.avro.json_decoder import header_of
from airflow_provider_sfevents.spark.changes import serial, tables
from airflow_provider_sfevents.spark.changes.event import Change
from airflow_provider_sfevents.spark.current_state.frames import rows_of
from airflow_provider_sfevents.spark.current_state.state_rows import order_of, order_parts
from airflow_provider_sfevents.spark.current_state.value_translation import Translation, converted
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted, without_logical_types
from airflow_provider_sfevents.staging.payload_bounds import is_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.schema.field_types import Column

QUARANTINED_SQL = (
    f"{envelope.ORDINAL} bigint, {envelope.RECEIVED_AT} timestamp, {envelope.SCHEMA_ID} string, "
    f"{envelope.EVENT_TYPE} string, {envelope.REASON} string, {envelope.RAW_PAYLOAD} binary"
)
"""Columns of the quarantine that `undecodable_events` needs."""
EVENTS_SQL = (
    f"{tables.OPEN_TRANSACTION_SQL.rpartition(', ')[0]}, changed_fields array<string>, "
    "nulled_fields array<string>, diff_fields array<string>, event_defect string"
)
"""Columns of an event besides its values."""
VALUES = "event_values"
EVENT_NAMES = tuple(column.split()[0] for column in EVENTS_SQL.split(", "))
_EVENT_TYPE = re.compile(r"(.+?)(__)?ChangeEvent")
_RECORD = re.compile(r"[A-Za-z0-9]{15}(?:[A-Za-z0-9]{3})?|[A-Za-z0-9]{3,15}\*|", re.ASCII)
_HALVES = re.compile("[\ud800-\udfff]")
_TEXTS = ("changeType", "transactionKey")
_BITS = {"commitTimestamp": 64, "sequenceNumber": 32}
"""Sizes of the header's whole numbers that are read; in Avro they are what the schema says."""


def entity_of(event_type: str) -> str:
    """The object of a change event's type; empty if the type is not a change event's.

    `AccountChangeEvent` is about `Account`, `Parcel__ChangeEvent` about `Parcel__c`.
    """
    found = _EVENT_TYPE.fullmatch(event_type)
    return "" if found is None else f"{found[1]}__c" if found[2] else found[1]


def values_column(entity: str) -> str:
    """Name of the column with the values of an entity's events: a struct."""
    return f"{VALUES}_{entity}"


def events_sql(entity: str, columns: Iterable[Column]) -> str:
    """Columns of an entity's events, as DDL.

    :param columns: of the entity's table.
    """
    own = ", ".join(f"{quoted(one.name)}: {one.type.sql()}" for one in columns)
    return f"{EVENTS_SQL}, {quoted(values_column(entity))} struct<{own}>" if own else EVENTS_SQL


def decoded_events(
    place: EventOrder, entity: str, way: Translation, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Convert rows of one event type's table to events.

    :param place: right before the batch's first event.
    :param batches: `event_columns`.
    :returns: batches of `events_sql`.
    """
    for batch in batches:
        names = (envelope.ORDINAL, envelope.RECEIVED_AT, envelope.SCHEMA_ID, HEADER)
        given = batch.select(names)
        changes = [
            _change(
                place._replace(ordinal=row[envelope.ORDINAL]),
                entity,
                row[HEADER],
                row[envelope.RECEIVED_AT],
                way.refused.get(row[envelope.SCHEMA_ID], ""),
            )
            for row in rows_of(given)
        ]
        events = event_rows(changes)
        if not way.columns:
            yield events
            continue
        values = _values(batch, way)
        yield events.append_column(values_column(entity), values)


def undecodable_events(
    place: EventOrder,
    schemas: Mapping[str, str],
    left_out: AbstractSet[int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Convert rows of quarantine to events that only name their records, if these can be read.

    :param place: right before the batch's first event.
    :param schemas: JSON by id.
    :param left_out: ordinals of events to pass over.
    """
    headers = _Headers(schemas)
    for batch in batches:
        yield event_rows(
            [
                _broken(place, row, headers(row[envelope.SCHEMA_ID], row[envelope.RAW_PAYLOAD]))
                for row in batch.to_pylist()
                if row[envelope.ORDINAL] not in left_out
            ]
        )


def event_columns(columns: Iterable[Column]) -> str:
    """Columns of an event table that `decoded_events` needs, as DDL."""
    own = ", ".join(f"{quoted(one.name)} {one.type.sql()}" for one in columns)
    return (
        f"{envelope.ORDINAL} bigint, {envelope.RECEIVED_AT} timestamp, {envelope.SCHEMA_ID} "
        "string, "
        f"{own}"
    )


def event_of(row: Mapping[str, Any]) -> Change:
    """Read an event from its columns, or from its text if it was set aside.

    Columns that are missing are empty: for its decisions the driver needs the identities alone.
    """
    if row.get("event_text") is not None:
        return serial.from_text(row["event_text"])
    values = row.get(VALUES) or row.get(values_column(row["entity_name"])) or {}
    return Change(
        order=order_of(row, "event"),
        entity=row["entity_name"],
        change_type=row["change_type"],
        record_ids=tuple(row["record_ids"]),
        transaction_key=row["transaction_key"],
        sequence_number=row["sequence_number"],
        committed_at=row["committed_at"],
        changed=tuple(row.get("changed_fields") or ()),
        nulled=tuple(row.get("nulled_fields") or ()),
        diffs=tuple(row.get("diff_fields") or ()),
        values={name: value for name, value in values.items() if value is not None},
        defect=row.get("event_defect") or "",
    )


def held_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert events to rows of `tables.OPEN_TRANSACTION_SQL`."""
    names = [column.split()[0] for column in tables.OPEN_TRANSACTION_SQL.split(", ")]
    for batch in batches:
        texts = [serial.to_text(event_of(row)) for row in rows_of(batch)]
        yield batch.select(names[:-1]).append_column(names[-1], pa.array(texts, pa.string()))


class _Headers:
    """Reads the header of a payload whose remainder is damaged."""

    def __init__(self, schemas: Mapping[str, str]) -> None:
        self._schemas = schemas
        self._parsed: dict[str, Any] = {}

    def __call__(self, schema_id: str, payload: bytes) -> Mapping[str, Any] | None:
        """Read a header, with its bitmaps undecoded.

        None if it cannot be read or has values that no header has.
        """
        from fastavro import schemaless_reader

        if payload[:1] == b"{":  # no header in Avro can begin like a message of the Streaming API
            return self._lawful(header_of(payload))
        if schema_id not in self._parsed:
            self._parsed[schema_id] = self._schema(schema_id)
        schema = self._parsed[schema_id]
        if schema is None:
            return None
        try:
            found: dict[str, Any] = schemaless_reader(io.BytesIO(payload), schema, None)[HEADER]
        except Exception:  # noqa: BLE001 - whatever damaged bytes do to the decoder
            return None
        return self._lawful(found)

    @staticmethod
    def _lawful(header: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the header; None if it does not name records, or tell the rest, as headers do."""
        ids = header.get("recordIds")
        if not isinstance(ids, list) or not all(
            isinstance(one, str) and _RECORD.fullmatch(one) for one in ids
        ):
            return None
        if not all(_is_text(header.get(name)) for name in _TEXTS):
            return None
        if not all(_is_whole(header.get(name), bits) for name, bits in _BITS.items()):
            return None
        return header

    def _schema(self, schema_id: str) -> Any:
        from fastavro import parse_schema

        try:
            schema = json.loads(self._schemas.get(schema_id, ""))
            first = schema["fields"][0]
        except (ValueError, KeyError, IndexError, TypeError):
            return None
        if first["name"] != HEADER:
            return None
        parsed = parse_schema(without_logical_types({**schema, "fields": [first]}))
        return parsed if is_bounded(parsed) else None


def _is_text(value: Any) -> bool:
    """True for None, and for text that a column can hold: JSON may have halves of characters."""
    return value is None or (isinstance(value, str) and not _HALVES.search(value))


def _is_whole(value: Any, bits: int) -> bool:
    """True for None, and for a whole number of this size."""
    limit = 1 << bits - 1
    return value is None or (type(value) is int and -limit <= value < limit)


def _broken(place: EventOrder, row: Mapping[str, Any], header: Mapping[str, Any] | None) -> Change:
    entity = entity_of(row[envelope.EVENT_TYPE] or "")
    if header is not None and header.get("entityName") != entity:
        header = None
    told = header or {}
    at = told.get("commitTimestamp")
    try:
        committed_at = datetime.fromtimestamp(at / 1000, UTC) if at is not None else None
    except (ValueError, OverflowError, OSError):
        committed_at = None
    return Change(
        order=place._replace(ordinal=row[envelope.ORDINAL]),
        entity=entity,
        change_type=told.get("changeType") or "",
        record_ids=tuple(told.get("recordIds", ())),
        transaction_key=told.get("transactionKey") or "",
        sequence_number=told.get("sequenceNumber") or 0,
        committed_at=committed_at or row[envelope.RECEIVED_AT],
        defect=row[envelope.REASON] or "it cannot be decoded",
    )


def _change(
    order: EventOrder,
    entity: str,
    header: Mapping[str, Any] | None,
    received_at: datetime,
    refused: str,
) -> Change:
    """Make an event of a header; its values stay in their columns.

    :param refused: reason why the entity's table has no columns for its values; empty: it has.
    """
    told = header or {}
    named = told.get("entityName") or ""
    is_meant = named == entity
    defect = refused if is_meant else f"its header names {named or 'no entity'}, not {entity}"
    return Change(
        order=order,
        entity=entity,
        change_type=told.get("changeType") or "",
        record_ids=_texts(told.get("recordIds")) if is_meant else (),
        transaction_key=told.get("transactionKey") or "",
        sequence_number=told.get("sequenceNumber") or 0,
        committed_at=told.get("commitTimestamp") or received_at,
        changed=_texts(told.get("changedFields")),
        nulled=_texts(told.get("nulledFields")),
        diffs=_texts(told.get("diffFields")),
        defect=defect,
    )


def _texts(given: Sequence[str | None] | None) -> tuple[str, ...]:
    return tuple([one or "" for one in given]) if given else ()


def _values(batch: pa.RecordBatch, way: Translation) -> pa.Array:
    """Make the column of values: a struct of the columns of the entity's table."""
    schemas = batch.column(envelope.SCHEMA_ID)
    columns = [_translated(batch, schemas, column, way) for column in way.columns]
    fields = [
        pa.field(one.name, array.type) for one, array in zip(way.columns, columns, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _translated(
    batch: pa.RecordBatch, schemas: pa.Array, column: Column, way: Translation
) -> pa.Array:
    """Make one column of an entity's table of those of the event table.

    A column that all rows have in one column of the event table, and in its type, stays as it is.
    """
    sources = {
        schema_id: (name, target)
        for schema_id in pc.unique(schemas).to_pylist()
        for name, target in way.targets.get(schema_id, {}).items()
        if target.column == column.name
    }
    names = {name for name, _ in sources.values()}
    if not names:
        return pa.nulls(batch.num_rows, arrow_type(column.type))
    has_all = len(sources) == len(pc.unique(schemas))
    if has_all and len(names) == 1 and all(one.had == one.wanted for _, one in sources.values()):
        return batch.column(names.pop())
    given = {name: batch.column(name).to_pylist() for name in names}
    found: list[Any] = []
    for at, schema_id in enumerate(schemas.to_pylist()):
        name, target = sources.get(schema_id, ("", None))
        found.append(
            None if target is None else converted(given[name][at], target.had, target.wanted)
        )
    return pa.array(found, arrow_type(column.type))


def event_rows(changes: Sequence[Change]) -> pa.RecordBatch:
    """Convert events to rows of `EVENTS_SQL`; their values are not among the columns."""
    kinds = {
        **dict.fromkeys(
            ("record_ids", "named_ids", "changed_fields", "nulled_fields", "diff_fields"),
            pa.list_(pa.string()),
        ),
        "committed_at": pa.timestamp("us", tz="UTC"),
        "sequence_number": pa.int32(),
        "is_wide": pa.bool_(),
        **dict.fromkeys(tables.EVENT_ORDER, pa.int64()),
    }
    rows = [_row(change) for change in changes]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row[name] for row in rows], kinds.get(name, pa.string()))
            for name in EVENT_NAMES
        ],
        names=list(EVENT_NAMES),
    )


def _row(change: Change) -> dict[str, Any]:
    part, wide = change.parts()
    return {
        **order_parts(change.order, "event"),
        "entity_name": change.entity,
        "change_type": change.change_type,
        "record_ids": list(change.record_ids),
        "transaction_key": change.transaction_key,
        "sequence_number": change.sequence_number,
        "committed_at": change.committed_at,
        "event_identity": change.identity,
        "named_ids": list(part.addressed.records) if part is not None else [],
        "is_wide": wide is not None,
        "changed_fields": list(change.changed),
        "nulled_fields": list(change.nulled),
        "diff_fields": list(change.diffs),
        "event_defect": change.defect,
    }
