"""Fold events into records on the executors.

A record's row, tombstone, resync entry and events become its writes. All rows of a record are in
one group, so that each record is decided by itself, with the same result on any executor and at any
repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_sfevents.spark.avro.arrow_columns import arrow_type
from airflow_provider_sfevents.spark.changes import serial
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.plan import for_record, of_records
from airflow_provider_sfevents.spark.changes.record import Done, Known, Outcome, RecordState, fold
from airflow_provider_sfevents.spark.changes.snapshot_rules import fold_snapshot
from airflow_provider_sfevents.spark.changes.tables import EVENT_ORDER, ORDER, RECORD_ID
from airflow_provider_sfevents.spark.current_state.event_rows import event_of
from airflow_provider_sfevents.spark.current_state.frames import plain_values, rows_of
from airflow_provider_sfevents.spark.current_state.record_history import changed_intervals
from airflow_provider_sfevents.spark.current_state.state_rows import (
    ENTRY_NAMES,
    ROW_NAMES,
    buried,
    entry_of,
    entry_row,
    kept_row,
    order_parts,
    state_of,
    state_row,
    unapplied_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry
    from airflow_provider_sfevents.spark.changes.source import Progress
    from airflow_provider_sfevents.spark.current_state.current_state_options import Deletions
    from airflow_provider_sfevents.spark.schema.field_types import Column

DONE: tuple[str, ...] = get_args(Done)
ANSWERS = ("replaced", "deleted", "newer", "refused")
"""Answers of an entity snapshot that are counted (`snapshot_rules.Answer`)."""
PUT, DROP, LEAVE = "put", "drop", ""
PARTIAL = "row_partial"
"""Name of the column that says that a row has only the columns of `Folding.read`."""

_MANY_ALIKE = 4
"""So many records that are alike are folded as one."""

_INSTANT = pa.timestamp("us", tz="UTC")
_EVENT = [(name, pa.int64()) for name in EVENT_ORDER]
_TEXT = ("event_text", pa.string())
_OUTCOME: dict[str, pa.DataType] = {
    RECORD_ID: pa.string(),
    "row_write": pa.string(),
    PARTIAL: pa.bool_(),
    "row_bury": pa.bool_(),
    "entry_write": pa.string(),
    **dict.fromkeys(ENTRY_NAMES, pa.int64()),
    "cause_at": _INSTANT,
    "resync_reasons": pa.list_(pa.string()),
    "resync_detail": pa.string(),
    "kept_events": pa.list_(pa.struct([*_EVENT, ("committed_at", _INSTANT), _TEXT])),
    **{f"settled_{part}": pa.int64() for part in EventOrder._fields},
    "put_aside": pa.list_(pa.struct([*_EVENT, ("quarantine_reason", pa.string()), _TEXT])),
    "fold_counts": pa.map_(pa.string(), pa.int32()),
    "read_answer": pa.string(),
    "is_deleted": pa.bool_(),
    **dict.fromkeys(ORDER, pa.int64()),
    "committed_at": _INSTANT,
    "read_at": _INSTANT,
}
"""Columns of an outcome before those of the entity's table."""


@dataclass(frozen=True, kw_only=True)
class Folding:
    """Settings of a fold that all records of an entity share.

    The values of fields that no event sets are neither read nor written: a row that is there keeps
    them.

    :param entry: of the entity, after what the batch does to it; for a read: before it.
    :param prefix_updates: updates of all records of a prefix; for a read: those kept for the
        entity.
    :param history: whether intervals are asked for, which have all values.
    :param fields: that events set in records that are there (`Change.fields`); None: any.
    """

    layout: Layout
    deletions: Deletions
    entry: ResyncEntry | None
    prefix_updates: tuple[Change, ...] = ()
    history: bool = False
    fields: frozenset[str] | None = None

    @cached_property
    def read(self) -> tuple[Column, ...]:
        """Columns whose values in the table are needed."""
        if self.history or self.fields is None:
            return self.layout.columns
        parents = {name.partition(".")[0] for name in self.fields}
        named = {one.name for parent in parents for one in self.layout.of_field(parent)}
        return tuple(one for one in self.layout.columns if one.name in named)

    @cached_property
    def outcome(self) -> pa.Schema:
        """Columns of the outcomes."""
        own = {column.name: arrow_type(column.type) for column in self.layout.columns}
        if not self.history:
            return pa.schema({**_OUTCOME, **own})
        order = dict.fromkeys(ORDER, pa.int64())
        spans = {"valid_from": _INSTANT, "valid_to": _INSTANT, "was_read": pa.bool_()}
        interval = pa.list_(pa.struct({RECORD_ID: pa.string(), **order, **spans, **own}))
        return pa.schema({**_OUTCOME, **own, "past_closes": interval, "past_opens": interval})


def outcome_columns(folding: Folding) -> StructType:
    """Columns of the outcomes in Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(folding.outcome)


def folded(
    folding: Folding, progress: Progress, read_at: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Fold a batch's events into records.

    Each row has its record's events in `events` (`event_rows.event_of`). Columns of every input
    beside the id are structs as in the tables (`known_row`, `known_tombstone`, `known_entry`, with
    its reasons as text; null: nothing) and lists (`known_past`).

    :param progress: as after the batch.
    :param read_at: when the whole entity was last read.
    """
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for given in rows_of(batch):
            record_id = given[RECORD_ID]
            named = map(event_of, given["events"] or ())
            events = [told for _, one, told in of_records(named, progress) if one == record_id]
            events += for_record(record_id, folding.prefix_updates)
            known, row = _known(given, folding, read_at)
            outcome = fold(record_id, known, events, folding.layout, with_history=folding.history)
            rows.append(_row(given, folding, known, row, outcome, ""))
        yield _batch(rows, folding)


def folded_snapshot(
    folding: Folding, read_at: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Apply an entity snapshot to records.

    Each row has the values that were read in `read_values` (null: none), and kept events in
    `event_texts`.
    """
    for batch in batches:
        groups = _alike(batch, folding)
        for group in groups:
            yield _read_alike(batch.take(group), folding, read_at)
        others = batch.take(pa.array(set(range(batch.num_rows)).difference(*groups), pa.int64()))
        rows = [_read_row(given, folding, read_at) for given in rows_of(others)]
        yield _batch(rows, folding)


def _read_row(given: Mapping[str, Any], folding: Folding, read_at: Any) -> dict[str, Any]:
    record_id = given[RECORD_ID]
    kept = [serial.from_text(text) for text in given["event_texts"]]
    kept += for_record(record_id, folding.prefix_updates)
    known, row = _known(given, folding, None)
    found = fold_snapshot(
        record_id,
        known,
        kept,
        given["read_values"],
        read_at,
        folding.layout,
        with_history=folding.history,
    )
    return _row(given, folding, known, row, found.outcome, found.answer)


def _alike(batch: pa.RecordBatch, folding: Folding) -> list[list[int]]:
    """Find groups of records whose outcomes differ only in their ids and values.

    These records were read, and have no tombstone, entry or events. The records of a group have no
    row yet, or rows with the same last event and times. An entity's first snapshot has one group.

    :returns: indexes of the rows of each group.
    """
    if folding.history or folding.prefix_updates:
        return []
    names = {"known_tombstone", "known_entry"}.intersection(batch.schema.names)
    no_events = pc.equal(pc.list_value_length(batch["event_texts"]), 0)
    lacking = [batch[name].is_null() for name in sorted(names)]
    is_read = reduce(pc.and_, (*lacking, no_events), batch["read_values"].is_valid()).to_pylist()
    known_row = batch["known_row"]
    state = [pc.struct_field(known_row, name) for name in ROW_NAMES if name != RECORD_ID]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, key in enumerate(zip(*map(plain_values, state), strict=True)):
        if is_read[at]:
            groups.setdefault(key, []).append(at)
    return [group for group in groups.values() if len(group) >= _MANY_ALIKE]


def _read_alike(group: pa.RecordBatch, folding: Folding, read_at: Any) -> pa.RecordBatch:
    """Make the outcomes of records that are alike: that of the first one, with their values."""
    (first,) = rows_of(group.slice(0, 1))
    row = _read_row(first, folding, read_at)
    made = _batch([row] * group.num_rows, folding)
    columns = dict(zip(made.schema.names, made.columns, strict=True))
    columns[RECORD_ID] = group[RECORD_ID]
    for column in folding.layout.columns if row["row_write"] == PUT else ():
        values = pc.struct_field(group["read_values"], column.name)
        columns[column.name] = values.cast(made.schema.field(column.name).type)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=made.schema)


def _known(
    given: Mapping[str, Any], folding: Folding, read_at: Any
) -> tuple[Known, RecordState | None]:
    """Read a record's state from its row, or from a tombstone that is newer."""
    row = None if given["known_row"] is None else state_of(given["known_row"], folding.read)
    tombstone = None if given["known_tombstone"] is None else buried(given["known_tombstone"])
    state = row or tombstone
    if row is not None and tombstone is not None and tombstone.order > row.order:
        state = tombstone
    told = given.get("known_entry")
    entry = told and entry_of({**told, "resync_reasons": told["resync_reasons"].split(",")})
    known = Known(state=state, entry=entry, entity_entry=folding.entry, entity_read_at=read_at)
    return known, row


def _row(
    given: Mapping[str, Any],
    folding: Folding,
    known: Known,
    row: RecordState | None,
    outcome: Outcome,
    answer: str,
) -> dict[str, Any]:
    state = outcome.state
    write, bury = _writes(state, row, known, folding.deletions)
    made: dict[str, Any] = {
        RECORD_ID: given[RECORD_ID],
        "row_write": write,
        PARTIAL: write == PUT
        and row is not None
        and state is not None
        and len(state.values) < len(folding.layout.columns),
        "row_bury": bury,
        "entry_write": LEAVE
        if outcome.entry == known.entry
        else DROP
        if outcome.entry is None
        else PUT,
        "kept_events": [kept_row(change) for change in outcome.kept],
        "put_aside": [unapplied_row(*one) for one in outcome.quarantined],
        "fold_counts": list(outcome.counts.items()),
        "read_answer": answer,
    }
    # Of an entry that goes the table needs to know which one is meant.
    if (entry := outcome.entry or known.entry) is not None:
        made |= entry_row(entry)
    if outcome.settled is not None:
        made |= order_parts(outcome.settled, "settled")
    if state is not None and (write or bury):
        made |= state_row(state) | dict(state.values)
    if folding.history and outcome.passed:
        past = given["known_past"] or ()
        closes, opens = changed_intervals(given[RECORD_ID], known.state, past, outcome.passed)
        made |= {"past_closes": closes, "past_opens": opens}
    return made


def _writes(
    state: RecordState | None, row: RecordState | None, known: Known, deletions: Deletions
) -> tuple[str, bool]:
    """Decide the change of the row, and whether to write a tombstone."""
    if state is None:
        return LEAVE, False
    if state.deleted and deletions == "delete":
        # A row may still be there that a job which died has not come to.
        return DROP if row is not None else LEAVE, state is not known.state or state is row
    return PUT if state is not known.state else LEAVE, False


def _batch(rows: list[dict[str, Any]], folding: Folding) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, folding.outcome)
