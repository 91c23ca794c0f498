"""Rows of the source `sfevents`: a staged file to Arrow batches, in the executors' Python.

Decoded and undecodable events of a file are rows of the same columns: an undecodable one has the
reason and its raw payload, and none of the event's own values.
"""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.avro import executor_tasks
from airflow_provider_sfevents.spark.avro.arrow_columns import arrow_type
from airflow_provider_sfevents.spark.avro.decoder_needs import ACCELERATOR, lacking
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.source.columns import RESCUED
from airflow_provider_sfevents.spark.source.staged_files import DAMAGED
from airflow_provider_sfevents.spark.stores.unreadable_files import (
    FileGoneError,
    naming,
    staged_rows,
)
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import AVRO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_sfevents.spark.source.columns import DecodingPlan, FixedColumns
    from airflow_provider_sfevents.spark.source.staged_files import StagedFiles
    from airflow_provider_sfevents.staging.manifest import PayloadFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file of a batch, with what its rows say of the batch.

    :param events: its number of events, by the manifest; as is `payload_format`.
    """

    url: str
    events: int
    org_id: str
    topic: str
    batch_id: str
    batch_number: int
    payload_format: PayloadFormat = AVRO


def read_rows(
    files: StagedFiles, file: StagedFile, fixed: FixedColumns, plan: DecodingPlan | None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a staged file, in its order within each schema.

    :param plan: None: raw payloads.
    :raises StagingError: the file is gone, or is not the one of the manifest.
    """
    try:
        opened = files.open(file.url)
    except FileGoneError as error:
        raise StagingError(
            f"The staged file {file.url} was removed while the query was reading it: its batch was "
            "swept. Start the query with a new checkpoint, and keep batches longer: `keep_for` of "
            "the task that lands."
        ) from error
    with opened, ExitStack() as stack:
        with naming(file.url, DAMAGED):
            parquet = stack.enter_context(pq.ParquetFile(opened))
        if parquet.metadata.num_rows != file.events:
            raise StagingError(
                f"The staged file {file.url} holds {counted(parquet.metadata.num_rows, 'event')}, "
                f"the manifest says {file.events}. It was changed after it was staged; restore it."
            )
        rows = staged_rows(parquet, file.url, DAMAGED)
        found = map(_raw, rows) if plan is None else _decoded(rows, plan, file.payload_format)
        for columns in found:
            yield _batch(columns, file, fixed)


def _raw(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    columns = _columns_of(rows)
    columns[envelope.ORDINAL] = columns.pop(layout.ORDINAL)
    columns[envelope.RAW_PAYLOAD] = columns.pop(layout.PAYLOAD)
    return columns


def _decoded(
    batches: Iterator[pa.RecordBatch], plan: DecodingPlan, payload_format: PayloadFormat
) -> Iterator[dict[str, pa.Array]]:
    """Yield the decoded and the undecodable events of the plan's type, by chunk and schema."""
    names = pa.array([*plan.names], pa.string())
    wanted = (rows.filter(pc.is_in(rows.column(layout.SCHEMA_ID), names)) for rows in batches)
    task = executor_tasks.Task(
        types=(plan.kind,) if plan.kind else (),
        refused=plan.refused,
        names=plan.names,
        first_ordinals=(0,),
        accelerated=not plan.rescued and not lacking((ACCELERATOR,)),
        payload_format=payload_format,
    )
    for batch in executor_tasks.judged(task, wanted):
        for good, bad in batch.values():
            if good:
                yield _with_rescued(good, plan.rescued)
            if bad:
                yield _columns_of(bad)


def _columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _with_rescued(batch: pa.RecordBatch, rescued: Mapping[str, str]) -> dict[str, pa.Array]:
    """Put the columns to rescue together into one text of JSON; null if they are all null."""
    columns = _columns_of(batch)
    if not rescued:
        return columns
    values = {field: columns.pop(name).to_pylist() for name, field in rescued.items()}
    texts = []
    for index in range(batch.num_rows):
        row = {field: column[index] for field, column in values.items()}
        said = {field: value for field, value in row.items() if value is not None}
        texts.append(json.dumps(said, default=_text) if said else None)
    return {**columns, RESCUED: pa.array(texts, pa.string())}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _batch(
    columns: Mapping[str, pa.Array], file: StagedFile, fixed: FixedColumns
) -> pa.RecordBatch:
    """Put a batch's columns in order; a column that it does not have is null."""
    count = len(columns[envelope.ORDINAL])
    own = {column.name: arrow_type(column.type) for column in fixed.own}
    nulls = {
        **own,
        envelope.REASON: pa.string(),
        envelope.RAW_PAYLOAD: pa.binary(),
        RESCUED: pa.string(),
    }
    replay_ids = columns[envelope.REPLAY_ID].to_pylist()
    of_batch = {
        envelope.ORG_ID: pa.repeat(file.org_id, count),
        envelope.TOPIC: pa.repeat(file.topic, count),
        envelope.BATCH_ID: pa.repeat(file.batch_id, count),
        envelope.BATCH_NUMBER: pa.repeat(pa.scalar(file.batch_number, pa.int64()), count),
        envelope.REPLAY_ID: pa.array([one.hex() for one in replay_ids], pa.string()),
    }
    arrays = [
        of_batch.get(name, columns.get(name))
        if name in of_batch or name in columns
        else pa.nulls(count, nulls[name])
        for name in fixed.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(fixed.names))
