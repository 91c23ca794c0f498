"""What runs on the executors: staged rows in, decoded rows or the undecodable ones out, as Arrow batches.

Executors need this package (`--py-files` brings it), pyarrow and fastavro; no Airflow, no gRPC. Both functions here are
deterministic: the same staged rows give the same result wherever and however often they run.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark import envelope
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from airflow_provider_sfevents.spark.decode import Decoder
    from airflow_provider_sfevents.spark.fieldtypes import Column
    from airflow_provider_sfevents.spark.plan import EventType

# What both functions pass through, and what they add, before the payload's own columns.
_PASSED = (layout.EVENT_ID, layout.RECEIVED_AT, layout.REPLAY_ID, layout.SCHEMA_ID)
LEADING_SQL = (
    f"{envelope.EVENT_ID} string, {envelope.EVENT_TIME} timestamp, {envelope.RECEIVED_AT} timestamp, "
    f"{envelope.REPLAY_ID} binary, {envelope.SCHEMA_ID} string, {envelope.ORDINAL} bigint, "
    f"{envelope.EVENT_DATE} date, {envelope.PART} int"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What an executor has to know.

    :param types: event types to decode; rows of other types must not be among the input.
    :param refused: reasons by schema id: these rows are undecodable as a whole.
    :param names: event type by schema id.
    :param first_ordinals: of each staged file, ascending.
    :param left_out: ordinals of events to pass over as if they were not there.
    """

    types: tuple[EventType, ...]
    refused: Mapping[str, str]
    names: Mapping[str, str]
    first_ordinals: tuple[int, ...]
    keep_payload: bool = False
    left_out: frozenset[int] = frozenset()


def decoded(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the rows of the one event type of the task; what does not decode is left out."""
    decode = _Decoding(task)
    for batch in _wanted(task, batches):
        for schema_id, rows in _by_schema(batch):
            arrays, good, times, _ = decode(schema_id, rows)
            if good:
                kept = _taken(rows, good)
                raw = [kept.column(layout.PAYLOAD)] if task.keep_payload else []
                yield _batch(
                    [*_leading(kept, times, task.first_ordinals), *arrays, *raw],
                    decode.names(schema_id, task),
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
                leading = _leading(kept, [None] * len(bad), task.first_ordinals)
                yield _batch([*leading, *said, kept.column(layout.PAYLOAD)], QUARANTINE_NAMES)


LEADING_NAMES = tuple(column.split()[0] for column in LEADING_SQL.split(", "))
QUARANTINE_NAMES = (*LEADING_NAMES, envelope.EVENT_TYPE, envelope.REASON, envelope.RAW_PAYLOAD)
QUARANTINE_SQL = f"{LEADING_SQL}, {envelope.EVENT_TYPE} string, {envelope.REASON} string, {envelope.RAW_PAYLOAD} binary"


class _Decoding:
    """The decoders of one task, made when the first row asks for them."""

    def __init__(self, task: Task) -> None:
        _check_wheels()
        self._task = task
        self._types = {schema_id: kind for kind in task.types for schema_id in kind.schemas}
        self._decoders: dict[str, Decoder] = {}

    def __call__(
        self, schema_id: str, rows: pa.RecordBatch
    ) -> tuple[list[pa.Array], list[int], list[int | None], dict[int, str]]:
        """Payload columns, the indexes of the rows they stand for, those rows' event times in ms, the others' reasons."""
        from airflow_provider_sfevents.spark.columns import build_columns

        records, good, reasons = self._decoder(schema_id).decode_all(
            rows.column(layout.PAYLOAD).to_pylist()
        )
        arrays, fitting, misfits = build_columns(records, self._columns(schema_id))
        reasons |= {good[index]: reason for index, reason in misfits.items()}
        times = [_event_time(records[index]) for index in fitting]
        return arrays, [good[index] for index in fitting], times, reasons

    def reasons(self, schema_id: str, rows: pa.RecordBatch) -> dict[int, str]:
        if schema_id in self._task.refused:
            return dict.fromkeys(range(rows.num_rows), self._task.refused[schema_id])
        return self(schema_id, rows)[3]

    def names(self, schema_id: str, task: Task) -> tuple[str, ...]:
        own = tuple(column.name for column in self._columns(schema_id))
        return (*LEADING_NAMES, *own, *([envelope.RAW_PAYLOAD] if task.keep_payload else []))

    def _columns(self, schema_id: str) -> Sequence[Column]:
        return self._types[schema_id].columns

    def _decoder(self, schema_id: str) -> Decoder:
        from airflow_provider_sfevents.spark.decode import Decoder

        if schema_id not in self._types:
            raise StagingError(
                f"A staged event names schema {schema_id!r}, which the manifest does not: the batch's files are not those the manifest "
                "was written for. Nothing was landed. Run the task again: before Spark starts it reads the staged files through and "
                "says what to do about a damaged one."
            )
        if schema_id not in self._decoders:
            self._decoders[schema_id] = Decoder(self._types[schema_id].schemas[schema_id])
        return self._decoders[schema_id]


def _wanted(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that are not to be left out; nearly always that is all, and then nothing is looked at."""
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
    """Split rows by schema; nearly always there is one, and then nothing is copied."""
    import pyarrow as pa

    ids = batch.column(layout.SCHEMA_ID).to_pylist()
    found = dict.fromkeys(ids)
    for schema_id in found:
        if len(found) == 1:
            yield schema_id, batch
        else:
            yield (
                schema_id,
                batch.take(pa.array([row for row, other in enumerate(ids) if other == schema_id])),
            )


def _taken(rows: pa.RecordBatch, indexes: Sequence[int]) -> pa.RecordBatch:
    import pyarrow as pa

    return rows if len(indexes) == rows.num_rows else rows.take(pa.array(indexes, pa.int64()))


def _leading(
    rows: pa.RecordBatch, times: Sequence[int | None], first_ordinals: Sequence[int]
) -> list[pa.Array]:
    import pyarrow as pa
    import pyarrow.compute as pc

    when = pa.array(times, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    received = rows.column(layout.RECEIVED_AT).cast(pa.timestamp("us", tz="UTC"))
    date = pc.coalesce(when, received).cast(pa.date32())
    ordinals = rows.column(layout.ORDINAL)
    part = pa.array(
        [bisect_right(first_ordinals, ordinal) - 1 for ordinal in ordinals.to_pylist()], pa.int32()
    )
    passed = {name: rows.column(name) for name in _PASSED}
    return [
        passed[layout.EVENT_ID],
        when,
        received,
        passed[layout.REPLAY_ID],
        passed[layout.SCHEMA_ID],
        ordinals,
        date,
        part,
    ]


def _event_time(record: dict[str, Any]) -> int | None:
    """Milliseconds since 1970: when the change was committed, or the event created; None where that cannot be read."""
    from airflow_provider_sfevents.spark.columns import FIRST_INSTANT_MS, LAST_INSTANT_MS
    from airflow_provider_sfevents.spark.decode import HEADER

    header = record.get(HEADER)
    value = header.get("commitTimestamp") if isinstance(header, dict) else record.get("CreatedDate")
    return (
        value if isinstance(value, int) and FIRST_INSTANT_MS <= value <= LAST_INSTANT_MS else None
    )


def _batch(arrays: list[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _check_wheels() -> None:
    """Fail in one line, with the remedy, where decoding could only fail in many.

    :raises ConfigurationError: an executor's Python lacks what decoding needs.
    """
    import sys
    from importlib.util import find_spec

    missing = [name for name in ("fastavro", "pyarrow") if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"The executors' Python ({sys.executable}) has no {' and no '.join(missing)}. Install it on every executor, or ship an "
            'environment that has it with --archives and PYSPARK_PYTHON (docs/spark.md, "On a cluster").'
        )
