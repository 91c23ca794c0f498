"""A staged batch as Spark sees it: its manifest, its schemas, its files as a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.avro import executor_tasks
from airflow_provider_sfevents.spark.avro.decoder_needs import ACCELERATOR, lacking
from airflow_provider_sfevents.spark.landing import table_files
from airflow_provider_sfevents.spark.landing.splits import Split, splits_of
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.event_columns import (
    SchemaPlan,
    nothing_recorded,
    plan_batch,
)
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.stores.unreadable_files import naming, staged_rows
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.projection import parquet_files, parsed
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.schema.evolution import OnTypeChange
    from airflow_provider_sfevents.spark.schema.field_types import FieldType
    from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

STAGED_SQL = (
    f"{layout.ORDINAL} bigint, {layout.EVENT_ID} string, {layout.REPLAY_ID} binary, "
    f"{layout.SCHEMA_ID} string, {layout.RECEIVED_AT} timestamp, {layout.PAYLOAD} binary"
)

# Checksums are the worker's business: it reads an adopted batch through before it starts Spark.
_DAMAGED = (
    "Nothing was landed. Run the task again: before Spark starts it reads the staged files through "
    "and says what to do about a damaged one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBatch:
    """A staged batch whose files have been checked against its manifest.

    :param url: of its manifest.
    :param text: the manifest as it was read.
    :param splits: its files as `AttemptWriter` takes them.
    :param accelerated: whether executors have the accelerator (`decoding.has_accelerator`); the
        result is the same without it.
    """

    url: str
    text: str
    manifest: Manifest
    plan: SchemaPlan
    splits: tuple[Split, ...]
    accelerated: bool = False

    @property
    def folder(self) -> str:
        """URL of the batch's folder."""
        return self.url.rpartition("/")[0]

    def rows(
        self, spark: SparkSession, schemas: Iterable[str], splits: Iterable[Split] | None = None
    ) -> DataFrame:
        """Staged rows written with these schemas.

        :param splits: those to read, each by one task, in the batch's order. Default: all, as
            Spark likes.
        """
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        wanted = set(schemas)
        if splits is None:
            found = [self._read(spark, self.manifest.parts, wanted)]
        else:
            # Spark reads the files of a task by size, the largest first. Pieces of one file keep
            # their order.
            found = [
                rows if len(split.parts) == 1 else rows.sortWithinPartitions(layout.ORDINAL)
                for split in splits
                if split.schemas & wanted
                for rows in [self._read(spark, split.parts, wanted).coalesce(1)]
            ]
        if not found:
            return spark.createDataFrame([], STAGED_SQL)
        rows = reduce(lambda one, other: one.unionAll(other), found)
        everything = wanted >= set(self.manifest.schemas)
        return rows if everything else rows.where(F.col(layout.SCHEMA_ID).isin(sorted(wanted)))

    def table_rows(
        self,
        spark: SparkSession,
        table: str,
        *,
        keep_payload: bool = False,
        left_out: frozenset[int] = frozenset(),
    ) -> DataFrame:
        """Decode the rows that land in a table, unordered.

        :param table: an event type, or quarantine.
        :param left_out: ordinals of events to pass over.
        """
        task = self.file_task(
            spark, keep_payload=keep_payload, left_out=left_out, tables=frozenset({table})
        )
        of_types = {kind.name: kind.schemas for kind in self.plan.types}
        rows = self.rows(spark, of_types.get(table, self.manifest.schemas))
        columns = self.table_schema(table, keep_payload=keep_payload)
        return rows.mapInArrow(partial(table_files.table_rows, task), columns)

    def file_task(
        self,
        spark: SparkSession,
        *,
        keep_payload: bool,
        left_out: frozenset[int],
        tables: frozenset[str] | None,
    ) -> table_files.FileTask:
        """Describe the making of the tables' Parquet files, or of their rows.

        :param tables: those that are wanted; None: all.
        """
        decoding = executor_tasks.Task(
            types=self.plan.types,
            refused=dict(self.plan.refused),
            names=dict(self.plan.names),
            first_ordinals=tuple(split.first_ordinal for split in self.splits),
            keep_payload=keep_payload,
            left_out=left_out,
            accelerated=self.accelerated,
            payload_format=self.manifest.payload_format,
        )
        return table_files.FileTask(
            decoding=decoding,
            of_batch=self._of_batch(),
            tables=tables,
            codec=table_files.codec_of(str(spark.conf.get("spark.sql.parquet.compression.codec"))),
        )

    def files_of_tasks(self, spark: SparkSession, task: table_files.FileTask) -> DataFrame:
        """Make the files on the executors, in pieces; a task for a split."""
        rows = self.rows(spark, self.manifest.schemas, self.splits)
        return rows.mapInArrow(
            partial(table_files.table_files, task), parsed(table_files.FILES_SQL)
        )

    def files_here(self, files: Files, task: table_files.FileTask) -> Iterator[table_files.Piece]:
        """Make the files of a small batch in the driver, in pieces, in each file's order.

        :raises StagingError: a staged file cannot be read.
        """
        is_accelerated = not lacking((ACCELERATOR,))
        here = replace(task, decoding=replace(task.decoding, accelerated=is_accelerated))
        for rows in table_files.table_files(here, self._staged_rows(files)):
            yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)

    def _staged_rows(self, files: Files) -> Iterator[pa.RecordBatch]:
        """Read the staged files in the driver, in the batch's order."""
        urls = [f"{self.folder}/{part.path}" for part in self.manifest.parts]
        for url, content in zip(urls, side_by_side(files.read_bytes, urls), strict=True):
            with naming(url, _DAMAGED):
                staged = pq.ParquetFile(pa.BufferReader(content))
            yield from staged_rows(staged, url, _DAMAGED)

    def table_schema(self, table: str, *, keep_payload: bool) -> StructType:
        """Columns of a table with this batch, and the column that it is partitioned by."""
        if table == file_moves.QUARANTINE:
            own = [executor_tasks.OF_QUARANTINE_SQL]
        else:
            (kind,) = (one for one in self.plan.types if one.name == table)
            own = executor_tasks.columns_sql(kind, keep_payload=keep_payload)
        return parsed(", ".join([envelope.ENVELOPE_SQL, *own, f"{envelope.EVENT_DATE} date"]))

    def _read(self, spark: SparkSession, parts: Iterable[Part], wanted: set[str]) -> DataFrame:
        """Read those of the files that hold rows of these schemas."""
        found = [part.path for part in parts if wanted.intersection(part.schemas)]
        return parquet_files(spark, STAGED_SQL, [f"{self.folder}/{path}" for path in found])

    def _of_batch(self) -> dict[str, str | int]:
        """Envelope columns that are the same for all rows of the batch."""
        return {
            envelope.ORG_ID: self.manifest.org_id,
            envelope.TOPIC: self.manifest.topic,
            envelope.BATCH_ID: self.manifest.batch_id,
            envelope.BATCH_NUMBER: self.manifest.batch_number,
        }


def ensure_staged(files: Files, manifest_url: str) -> None:
    """Check that a batch is staged.

    :raises StagingError: there is no such manifest.
    """
    if not files.exists(manifest_url):
        raise StagingError(
            f"There is no manifest at {manifest_url}. Spark must reach the staging area "
            f"under this very URL: check that it is shared "
            "with the Spark driver and executors, and that the batch has not been swept."
        )


def open_batch(
    spark: SparkSession,
    files: Files,
    manifest_url: str,
    *,
    recorded: Callable[[str], Recorded] = nothing_recorded,
    decimals: Mapping[str, FieldType] | None = None,
    on_type_change: OnTypeChange = "new_column",
    accelerated: bool = False,
) -> StagedBatch:
    """Read a manifest and make sure that the files it names exist and are complete.

    :param recorded: the columns that tables have already (`plan_batch`, as are the others).
    :raises StagingError: something is missing or does not match; nothing has been written.
    """
    ensure_staged(files, manifest_url)
    text = files.read_text(manifest_url)
    manifest = Manifest.from_json(text, manifest_url)
    folder = manifest_url.rpartition("/")[0]
    _check_files(files, folder, manifest.parts)
    if sum(part.events for part in manifest.parts) != manifest.events:
        raise StagingError(
            f"{manifest_url} says {counted(manifest.events, 'event')}, its files add up to "
            f"another number. {_DAMAGED}"
        )
    looked_at = StagedBatch(
        url=manifest_url,
        text=text,
        manifest=manifest,
        plan=SchemaPlan(types=(), refused={}, names={}),
        splits=splits_of(manifest.parts),
        accelerated=accelerated,
    )
    schemas, unknown = _read_schemas(files, folder, manifest.schemas)
    plan = plan_batch(
        schemas,
        partial(events_by_schema, spark, looked_at),
        unknown,
        recorded=recorded,
        decimals=decimals,
        on_type_change=on_type_change,
    )
    return replace(looked_at, plan=plan)


def ensure_unchanged(files: Files, batch: StagedBatch) -> None:
    """Make sure that the batch is still staged as it was when `open_batch` checked it.

    :raises StagingError: it was removed, or staged anew.
    """
    said = _manifest_now(files, batch)
    if said is None:
        raise StagingError(
            f"{batch.url} was removed while batch {batch.manifest.batch_id} was being "
            f"landed. A staging area has to be kept until its "
            "batches are committed. Run the task again: it fetches what has not been committed."
        )
    if said != batch.text:
        raise StagingError(
            f"Batch {batch.manifest.batch_id} was staged anew while its earlier form was being "
            f"landed: {batch.url} has changed. This landing gives way. Run the task again."
        )


def write_receipt_file(files: Files, batch: StagedBatch, receipt: Receipt) -> None:
    """Write the receipt that proves that the batch has landed.

    A batch that has been swept meanwhile gets no receipt; only a landed batch is swept.

    :raises StagingError: the batch has been staged anew; what landed is its earlier form.
    """
    if _manifest_now(files, batch) is not None:
        ensure_unchanged(files, batch)
        url = f"{batch.folder}/{layout.RECEIPT}"
        files.write_staged(url, receipt.to_json())


def _manifest_now(files: Files, batch: StagedBatch) -> str | None:
    return files.read_text(batch.url) if files.exists(batch.url) else None


def _check_files(files: Files, folder: str, parts: Iterable[Part]) -> None:
    """Check the files that the manifest names.

    :raises StagingError: a file is missing, or has not the manifest's number of events.
    """
    said = {f"{folder}/{part.path}": part.events for part in parts}
    for url, rows in files.row_counts(said).items():
        if rows is None:
            raise StagingError(
                f"The staged file {url} is missing; the manifest counts "
                f"{counted(said[url], 'event')} in it. {_DAMAGED}"
            )
        if rows != said[url]:
            raise StagingError(
                f"The staged file {url} holds {counted(rows, 'event')}, the manifest says "
                f"{said[url]}. {_DAMAGED}"
            )


def _read_schemas(
    files: Files, folder: str, schema_ids: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Read the schemas by id, and the reasons for those that the service does not have.

    If both files of an id exist, the schema counts and not the reason.
    """
    schemas: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for schema_id in schema_ids:
        url = f"{folder}/{layout.schema_name(schema_id)}"
        instead = f"{folder}/{layout.unknown_schema_name(schema_id)}"
        if files.exists(url):
            schemas[schema_id] = files.read_text(url)
        elif files.exists(instead):
            unknown[schema_id] = " ".join(files.read_text(instead).split())
        else:
            raise StagingError(
                f"The schema file {url} is missing, so that its events cannot be decoded. "
                f"Run the fetch again: it gets it anew."
            )
    return schemas, unknown


def events_by_schema(spark: SparkSession, batch: StagedBatch) -> dict[str, int]:
    """Count a batch's events by the id of their schema."""
    rows = batch.rows(spark, batch.manifest.schemas).groupBy(layout.SCHEMA_ID).count().collect()
    return {row[layout.SCHEMA_ID]: row["count"] for row in rows}
