"""Tasks of the executors: staged rows to decoded or to undecodable rows, as Arrow batches.

Executors need this package (by `--py-files`), pyarrow, fastavro and numpy; neither Airflow nor
gRPC. All functions are deterministic: the same staged rows give the same result each time.
"""

from __future__ import annotations

import logging
import sys
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.avro.arrow_columns import instants
from airflow_provider_sfevents.spark.avro.decoder_needs import (
    ACCELERATOR,
    EXECUTORS_NEED,
    lacking,
    wheels_missing,
)
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import AVRO, JSON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from airflow_provider_sfevents.spark.avro.reference_decoder import Decoded, PayloadDecoder
    from airflow_provider_sfevents.spark.schema.event_columns import EventType
    from airflow_provider_sfevents.spark.schema.field_types import Column
    from airflow_provider_sfevents.staging.manifest import PayloadFormat

    Judged = dict[str, tuple[pa.RecordBatch | None, pa.RecordBatch | None]]

logger = logging.getLogger(__name__)

# Staged columns that are kept; `LEADING_NAMES` are all before the payload's own ones.
_PASSED = (
    layout.EVENT_ID,
    layout.RECEIVED_AT,
    layout.REPLAY_ID,
    layout.SCHEMA_ID,
    layout.ORDINAL,
)
LEADING_NAMES = (
    envelope.EVENT_ID,
    envelope.EVENT_TIME,
    envelope.RECEIVED_AT,
    envelope.REPLAY_ID,
    envelope.SCHEMA_ID,
    envelope.ORDINAL,
    envelope.EVENT_DATE,
    envelope.SPLIT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Input of an executor's task, beside the rows.

    :param types: event types to decode; rows of other types must not be among the input.
    :param refused: reasons by schema id; rows of these schemas are undecodable.
    :param names: event type by schema id.
    :param first_ordinals: of each split of the batch, ascending.
    :param left_out: ordinals of events that are skipped.
    :param accelerated: executors have the accelerator, which gives the same rows sooner.
    :param payload_format: of all rows.
    """

    types: tuple[EventType, ...]
    refused: Mapping[str, str]
    names: Mapping[str, str]
    first_ordinals: tuple[int, ...]
    keep_payload: bool = False
    left_out: frozenset[int] = frozenset()
    accelerated: bool = False
    payload_format: PayloadFormat = AVRO


def judged(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[Judged]:
    """Decode each batch, and return its decoded and undecodable rows by schema id."""
    decode = _Decoding(task)
    for batch in _wanted(task, batches):
        yield {
            schema_id: decode(schema_id, rows)
            for schema_id, rows in by_value(batch, layout.SCHEMA_ID)
        }


QUARANTINE_NAMES = (*LEADING_NAMES, envelope.EVENT_TYPE, envelope.REASON, envelope.RAW_PAYLOAD)
OF_QUARANTINE_SQL = (
    f"{envelope.EVENT_TYPE} string, {envelope.REASON} string, {envelope.RAW_PAYLOAD} binary"
)


def columns_sql(kind: EventType, *, keep_payload: bool) -> list[str]:
    """Spell an event type's own columns, and the raw payload on request, as DDL."""
    columns = [f"{quoted(column.name)} {column.type.sql()}" for column in kind.columns]
    return [*columns, f"{envelope.RAW_PAYLOAD} binary"] if keep_payload else columns


class _Decoding:
    """The decoders of one task, each made for the first row of its schema."""

    def __init__(self, task: Task) -> None:
        check_wheels(accelerated=task.accelerated)
        self._task = task
        self._types = {schema_id: kind for kind in task.types for schema_id in kind.schemas}
        self._decoders: dict[str, PayloadDecoder] = {}

    def __call__(
        self, schema_id: str, rows: pa.RecordBatch
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
        """Return the decoded rows, and the undecodable ones; None: there are none."""
        if schema_id in self._task.refused:
            reason = self._task.refused[schema_id]
            return None, self._bad(schema_id, rows, dict.fromkeys(range(rows.num_rows), reason))
        found = self._decoder(schema_id)(rows.column(layout.PAYLOAD).to_pylist())
        good = self._good(schema_id, rows, found) if len(found.rows) else None
        return good, self._bad(schema_id, rows, found.reasons) if found.reasons else None

    def _good(self, schema_id: str, rows: pa.RecordBatch, found: Decoded) -> pa.RecordBatch:
        kept = _taken(rows, found.rows)
        arrays = [*_leading(kept, found.times, self._task.first_ordinals), *found.arrays]
        own = (column.name for column in self._types[schema_id].columns)
        names = [*LEADING_NAMES, *own]
        if self._task.keep_payload:
            arrays.append(kept.column(layout.PAYLOAD))
            names.append(envelope.RAW_PAYLOAD)
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _bad(
        self, schema_id: str, rows: pa.RecordBatch, reasons: Mapping[int, str]
    ) -> pa.RecordBatch:
        bad = sorted(reasons)
        kept = _taken(rows, bad)
        said = [
            pa.array([self._task.names[schema_id]] * len(bad)),
            pa.array([reasons[index] for index in bad]),
        ]
        leading = _leading(kept, pa.nulls(len(bad), pa.int64()), self._task.first_ordinals)
        arrays = [*leading, *said, kept.column(layout.PAYLOAD)]
        return pa.RecordBatch.from_arrays(arrays, names=[*QUARANTINE_NAMES])

    def _decoder(self, schema_id: str) -> PayloadDecoder:
        if schema_id not in self._types:
            raise StagingError(
                f"A staged event names schema {schema_id!r}, and the manifest does not: the "
                "batch's files are not those of the manifest. Nothing was landed. Run the task "
                "again: before Spark starts it verifies the staged files, and its error names the "
                "remedy for a damaged one."
            )
        if schema_id not in self._decoders:
            kind = self._types[schema_id]
            self._decoders[schema_id] = payload_decoder(
                kind.schemas[schema_id],
                kind.columns_of(schema_id),
                accelerated=self._task.accelerated,
                payload_format=self._task.payload_format,
            )
        return self._decoders[schema_id]


def check_wheels(*, accelerated: bool) -> None:
    """Check the modules that decoding needs, before rows are decoded.

    :raises ConfigurationError: an executor's Python lacks one; the message has the remedy.
    """
    more = (ACCELERATOR,) if accelerated else ()
    if missing := wheels_missing(sys.executable, lacking((*EXECUTORS_NEED, *more))):
        raise ConfigurationError(missing)


def payload_decoder(
    schema_json: str,
    columns: Sequence[Column],
    *,
    accelerated: bool,
    payload_format: PayloadFormat = AVRO,
) -> PayloadDecoder:
    """Make the decoder of a schema: of messages, the accelerator where it fits, or the reference.

    :param payload_format: of the payloads.
    """
    from airflow_provider_sfevents.spark.avro.json_decoder import JsonMessages
    from airflow_provider_sfevents.spark.avro.reference_decoder import Reference

    if payload_format == JSON:
        return JsonMessages(schema_json, columns)
    if not accelerated:
        return Reference(schema_json, columns)
    from airflow_provider_sfevents.spark.avro.accelerated_decoder import Accelerated
    from airflow_provider_sfevents.spark.avro.arrow_conversion import left_to_reference

    if reason := left_to_reference(schema_json, columns):
        logger.info("Decoded record by record: %s.", reason)
        return Reference(schema_json, columns)
    return Accelerated(schema_json, columns)


def _wanted(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Skip the rows that are left out. Nearly always there are none; then rows are not read."""
    if not task.left_out:
        yield from batches
        return
    for batch in batches:
        ordinals = batch.column(layout.ORDINAL).to_pylist()
        kept = [row for row, ordinal in enumerate(ordinals) if ordinal not in task.left_out]
        if kept:
            yield batch.take(pa.array(kept, pa.int64()))


def by_value(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Divide rows by a column's value. Nearly always there is one; then nothing is copied."""
    values = batch.column(column)
    found = pc.unique(values)
    for value in found:
        rows = batch if len(found) == 1 else batch.filter(pc.equal(values, value))
        yield value.as_py(), rows


def _taken(rows: pa.RecordBatch, indexes: Sequence[int]) -> pa.RecordBatch:
    return rows if len(indexes) == rows.num_rows else rows.take(pa.array(indexes, pa.int64()))


def _leading(
    rows: pa.RecordBatch, times: pa.Array, first_ordinals: Sequence[int]
) -> list[pa.Array]:
    when = instants(times)
    event_ids, received, *others, ordinals = map(rows.column, _PASSED)
    received = received.cast(pa.timestamp("us", tz="UTC"))
    dates = pc.coalesce(when, received).cast(pa.date32())
    return [event_ids, when, received, *others, ordinals, dates, _splits(ordinals, first_ordinals)]


def _splits(ordinals: pa.Array, first_ordinals: Sequence[int]) -> pa.Array:
    """Index of the split of each row; nearly always all rows are of one."""
    bounds = pc.min_max(ordinals)
    first, last = (bisect_right(first_ordinals, bounds[end].as_py()) - 1 for end in ("min", "max"))
    if first == last:
        return pa.repeat(pa.scalar(first, pa.int32()), len(ordinals))
    splits = [bisect_right(first_ordinals, ordinal) - 1 for ordinal in ordinals.to_pylist()]
    return pa.array(splits, pa.int32())
