"""A staged batch as Spark sees it: its manifest, its schemas, its files as a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark import envelope, executor
from airflow_provider_sfevents.spark.fieldtypes import quoted
from airflow_provider_sfevents.spark.plan import BatchPlan, EventType, plan_batch
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_provider_sfevents.spark.hadoop import Files

STAGED_SQL = (
    f"{layout.ORDINAL} bigint, {layout.EVENT_ID} string, {layout.REPLAY_ID} binary, {layout.SCHEMA_ID} string, "
    f"{layout.RECEIVED_AT} timestamp, {layout.PAYLOAD} binary"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBatch:
    """A batch whose files have been looked at.

    :param folder: URL of the batch's folder.
    :param largest_file: bytes.
    """

    folder: str
    manifest: Manifest
    plan: BatchPlan
    largest_file: int

    def rows(self, spark: SparkSession, schemas: Iterable[str], parts: Iterable[Part]) -> DataFrame:
        """Staged rows written with these schemas, in these files."""
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        wanted = set(schemas)
        paths = [
            f"{self.folder}/{part.path}" for part in parts if wanted.intersection(part.schemas)
        ]
        if not paths:
            return spark.createDataFrame([], STAGED_SQL)
        rows = spark.read.schema(STAGED_SQL).parquet(*paths)
        everything = wanted >= set(self.manifest.schemas)
        return rows if everything else rows.where(F.col(layout.SCHEMA_ID).isin(sorted(wanted)))

    def decoded(
        self, spark: SparkSession, event_type: EventType, *, keep_payload: bool
    ) -> DataFrame:
        """Decode the events of one type, as rows of their table, and the staged file each comes from."""
        task = self._task((event_type,), {}, keep_payload=keep_payload)
        columns = [f"{quoted(column.name)} {column.type.sql()}" for column in event_type.columns]
        columns += [f"{envelope.RAW_PAYLOAD} binary"] if keep_payload else []
        rows = self.rows(spark, event_type.schemas, self.manifest.parts)
        found = rows.mapInArrow(
            partial(executor.decoded, task), ", ".join([executor.LEADING_SQL, *columns])
        )
        own = [column.name for column in event_type.columns] + (
            [envelope.RAW_PAYLOAD] if keep_payload else []
        )
        return found.select(
            *self._envelope(), *map(quoted, own), envelope.EVENT_DATE, envelope.PART
        )

    def undecodable(self, spark: SparkSession, parts: Iterable[Part]) -> DataFrame:
        """Find the events of these files that do not decode, with their raw payload and the reason."""
        task = self._task(self.plan.types, self.plan.refused, keep_payload=False)
        rows = self.rows(spark, self.manifest.schemas, parts)
        found = rows.mapInArrow(partial(executor.undecodable, task), executor.QUARANTINE_SQL)
        own = (envelope.EVENT_TYPE, envelope.REASON, envelope.RAW_PAYLOAD)
        return found.select(*self._envelope(), *own, envelope.EVENT_DATE, envelope.PART)

    def _task(
        self, types: tuple[EventType, ...], refused: Mapping[str, str], *, keep_payload: bool
    ) -> executor.Task:
        return executor.Task(
            types=types,
            refused=dict(refused),
            names=dict(self.plan.names),
            first_ordinals=tuple(part.first_ordinal for part in self.manifest.parts),
            keep_payload=keep_payload,
        )

    def _envelope(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        of_batch = {
            envelope.ORG_ID: F.lit(self.manifest.org_id),
            envelope.TOPIC: F.lit(self.manifest.topic),
            envelope.BATCH_ID: F.lit(self.manifest.batch_id),
            envelope.SEQUENCE: F.lit(self.manifest.sequence).cast("bigint"),
            envelope.REPLAY_ID: F.lower(F.hex(envelope.REPLAY_ID)),
        }
        return [of_batch.get(name, F.col(name)).alias(name) for name in envelope.ENVELOPE]


def open_batch(spark: SparkSession, files: Files, manifest_url: str) -> StagedBatch:
    """Read a manifest and make sure that what it names is there, complete.

    :raises StagingError: something is missing or does not match; nothing has been written.
    """
    if not files.exists(manifest_url):
        raise StagingError(
            f"There is no manifest at {manifest_url}. Spark must reach the staging area under this very URL: check that it is shared "
            "with the Spark driver and executors, and that the batch has not been swept."
        )
    manifest = Manifest.from_json(files.read_text(manifest_url), manifest_url)
    folder = manifest_url.rpartition("/")[0]
    sizes = [_checked_size(files, f"{folder}/{part.path}", part) for part in manifest.parts]
    if sum(part.events for part in manifest.parts) != manifest.events:
        raise StagingError(
            f"{manifest_url} says {manifest.events} events, its files add up to another number. Release the batch."
        )
    schemas = {schema_id: _schema(files, folder, schema_id) for schema_id in manifest.schemas}
    counted = StagedBatch(
        folder=folder,
        manifest=manifest,
        plan=BatchPlan(types=(), refused={}, names={}),
        largest_file=max(sizes, default=0),
    )
    plan = plan_batch(schemas, partial(_events_by_schema, spark, counted))
    return StagedBatch(
        folder=folder, manifest=manifest, plan=plan, largest_file=counted.largest_file
    )


def write_receipt_file(files: Files, folder: str, receipt: Receipt) -> None:
    """Say that the batch has landed; not where the batch has meanwhile been swept, which only a landed one is."""
    if files.exists(f"{folder}/{layout.MANIFEST}"):
        url = f"{folder}/{layout.RECEIPT}"
        files.write_text(url, receipt.to_json(), f"{url}.{uuid4().hex}.tmp")


def _checked_size(files: Files, url: str, part: Part) -> int:
    if not files.exists(url):
        raise StagingError(
            f"The staged file {url} is missing; the manifest counts {part.events} events in it. Release the batch."
        )
    rows = files.row_count(url)
    if rows != part.events:
        raise StagingError(
            f"The staged file {url} holds {rows} events, the manifest says {part.events}. Release the batch."
        )
    return files.size(url)


def _schema(files: Files, folder: str, schema_id: str) -> str:
    url = f"{folder}/{layout.schema_name(schema_id)}"
    if not files.exists(url):
        raise StagingError(
            f"The schema file {url} is missing, so that its events cannot be decoded. Run the fetch again: it gets it anew."
        )
    return files.read_text(url)


def _events_by_schema(spark: SparkSession, batch: StagedBatch) -> dict[str, int]:
    rows = (
        batch.rows(spark, batch.manifest.schemas, batch.manifest.parts)
        .groupBy(layout.SCHEMA_ID)
        .count()
        .collect()
    )
    return {row[layout.SCHEMA_ID]: row["count"] for row in rows}
