"""Tasks of the executors: staged rows to decoded or to undecodable rows, as Arrow batches.

Executors need this package (by `--py-files`), pyarrow, fastavro and numpy; neither Airflow nor
gRPC. Both functions are deterministic: the same staged rows give the same result each time.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.avro.executor_decoder import check_wheels, payload_decoder
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables.projection import parsed
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import AVRO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.avro.reference_decoder import Decoded, PayloadDecoder
    from airflow_provider_sfevents.spark.schema.event_columns import EventType
    from airflow_provider_sfevents.staging.manifest import PayloadFormat

# Staged columns that both functions keep; `LEADING_SQL` are all before the payload's own ones.
_PASSED = (layout.EVENT_ID, layout.RECEIVED_AT, layout.REPLAY_ID, layout.SCHEMA_ID)
LEADING_SQL = (
    f"{envelope.EVENT_ID} string, {envelope.EVENT_TIME} timestamp, "
    f"{envelope.RECEIVED_AT} timestamp, {envelope.REPLAY_ID} binary, "
    f"{envelope.SCHEMA_ID} string, {envelope.ORDINAL} bigint, "
    f"{envelope.EVENT_DATE} date, {envelope.SPLIT} int"
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

    def decoded(self, rows: DataFrame) -> DataFrame:
        """Decode rows of the task's one event type; undecodable rows are left out.

        :param rows: as staged.
        :returns: the leading columns, those of the event type, and the raw payload on request.
        """
        (kind,) = self.types
        columns = [f"{quoted(column.name)} {column.type.sql()}" for column in kind.columns]
        raw = [f"{envelope.RAW_PAYLOAD} binary"] if self.keep_payload else []
        made = parsed(", ".join([LEADING_SQL, *columns, *raw]))
        return rows.mapInArrow(partial(decoded, self), made)

    def undecodable(self, rows: DataFrame) -> DataFrame:
        """Keep only rows that cannot be decoded, each with its raw payload and the reason.

        :param rows: as staged, of any schema of the task.
        """
        return rows.mapInArrow(partial(undecodable, self), QUARANTINE_SQL)


def decoded(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the rows of the task's one event type; undecodable rows are left out."""
    decode = _Decoding(task)
    for batch in _wanted(task, batches):
        for schema_id, rows in _by_schema(batch):
            found = decode(schema_id, rows)
            if len(found.rows):
                kept = _taken(rows, found.rows)
                raw = [kept.column(layout.PAYLOAD)] if task.keep_payload else []
                yield _batch(
                    [*_leading(kept, found.times, task.first_ordinals), *found.arrays, *raw],
                    decode.names(schema_id),
                )


def undecodable(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep only the rows that `decoded` leaves out, each with its raw payload and the reason."""
    import pyarrow as pa

    decode = _Decoding(task)
    for batch in _wanted(task, batches):
        for schema_id, rows in _by_schema(batch):
            reasons = decode.reasons(schema_id, rows)
            if reasons:
                bad = sorted(reasons)
                kept = _taken(rows, bad)
                said = [
                    pa.array([task.names[schema_id]] * len(bad)),
                    pa.array([reasons[index] for index in bad]),
                ]
                leading = _leading(kept, pa.nulls(len(bad), pa.int64()), task.first_ordinals)
                yield _batch([*leading, *said, kept.column(layout.PAYLOAD)], QUARANTINE_NAMES)


LEADING_NAMES = tuple(column.split()[0] for column in LEADING_SQL.split(", "))
QUARANTINE_NAMES = (*LEADING_NAMES, envelope.EVENT_TYPE, envelope.REASON, envelope.RAW_PAYLOAD)
QUARANTINE_SQL = (
    f"{LEADING_SQL}, {envelope.EVENT_TYPE} string, {envelope.REASON} string, "
    f"{envelope.RAW_PAYLOAD} binary"
)


class _Decoding:
    """The decoders of one task, each made for the first row of its schema."""

    def __init__(self, task: Task) -> None:
        check_wheels(accelerated=task.accelerated)
        self._task = task
        self._types = {schema_id: kind for kind in task.types for schema_id in kind.schemas}
        self._decoders: dict[str, PayloadDecoder] = {}

    def __call__(self, schema_id: str, rows: pa.RecordBatch) -> Decoded:
        return self._decoder(schema_id)(rows.column(layout.PAYLOAD).to_pylist())

    def reasons(self, schema_id: str, rows: pa.RecordBatch) -> dict[int, str]:
        if schema_id in self._task.refused:
            return dict.fromkeys(range(rows.num_rows), self._task.refused[schema_id])
        return self(schema_id, rows).reasons

    def names(self, schema_id: str) -> tuple[str, ...]:
        own = tuple(column.name for column in self._types[schema_id].columns)
        raw = [envelope.RAW_PAYLOAD] if self._task.keep_payload else []
        return (*LEADING_NAMES, *own, *raw)

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


def _wanted(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Skip the rows that are left out. Nearly always there are none; then rows are not read."""
    import pyarrow as pa

    if not task.left_out:
        yield from batches
        return
    for batch in batches:
        ordinals = batch.column(layout.ORDINAL).to_pylist()
        kept = [row for row, ordinal in enumerate(ordinals) if ordinal not in task.left_out]
        if kept:
            yield batch.take(pa.array(kept, pa.int64()))


def _by_schema(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by schema. Nearly always there is one; then nothing is copied."""
    import pyarrow.compute as pc

    ids = batch.column(layout.SCHEMA_ID)
    found = pc.unique(ids).to_pylist()
    for schema_id in found:
        yield schema_id, batch if len(found) == 1 else batch.filter(pc.equal(ids, schema_id))


def _taken(rows: pa.RecordBatch, indexes: Sequence[int]) -> pa.RecordBatch:
    import pyarrow as pa

    return rows if len(indexes) == rows.num_rows else rows.take(pa.array(indexes, pa.int64()))


def _leading(
    rows: pa.RecordBatch, times: pa.Array, first_ordinals: Sequence[int]
) -> list[pa.Array]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from airflow_provider_sfevents.spark.avro.arrow_columns import instants

    when = instants(times)
    received = rows.column(layout.RECEIVED_AT).cast(pa.timestamp("us", tz="UTC"))
    passed = {name: rows.column(name) for name in _PASSED}
    ordinals = rows.column(layout.ORDINAL)
    return [
        passed[layout.EVENT_ID],
        when,
        received,
        passed[layout.REPLAY_ID],
        passed[layout.SCHEMA_ID],
        ordinals,
        pc.coalesce(when, received).cast(pa.date32()),
        _splits(ordinals, first_ordinals),
    ]


def _splits(ordinals: pa.Array, first_ordinals: Sequence[int]) -> pa.Array:
    """Index of the split of each row; nearly always all rows are of one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = pc.min_max(ordinals)
    first, last = (bisect_right(first_ordinals, bounds[end].as_py()) - 1 for end in ("min", "max"))
    if first == last:
        return pa.repeat(pa.scalar(first, pa.int32()), len(ordinals))
    splits = [bisect_right(first_ordinals, ordinal) - 1 for ordinal in ordinals.to_pylist()]
    return pa.array(splits, pa.int32())


def _batch(arrays: list[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(arrays, names=list(names))
