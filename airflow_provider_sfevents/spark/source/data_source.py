"""The source `sfevents` of Spark: a topic's staged batches as a table or a stream.

PySpark makes each of these objects anew in other processes: `DataSource` in one that loads the
query, readers in one that plans it and in one that keeps the stream's offsets, and `read` runs in
the executors. What they share is pickled: options, and columns as they were when the query was
loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.source import offsets
from airflow_provider_sfevents.spark.source.offsets import Offset
from airflow_provider_sfevents.spark.source.source_options import read_options
from airflow_provider_sfevents.spark.source.staged_batches import load_columns, plan_tasks
from airflow_provider_sfevents.spark.source.staged_files import StagedFiles
from airflow_provider_sfevents.spark.source.staged_rows import read_rows
from airflow_provider_sfevents.spark.source.topic_listing import read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.source.columns import FixedColumns
    from airflow_provider_sfevents.spark.source.offsets import StagedTopic
    from airflow_provider_sfevents.spark.source.source_options import SourceOptions
    from airflow_provider_sfevents.spark.source.staged_batches import ReadTask


def register(spark: SparkSession) -> None:
    """Make the format `sfevents` known to a session: `spark.read`, `spark.readStream`."""
    spark.dataSource.register(SfEventsDataSource)


class SfEventsDataSource(DataSource):  # type: ignore[misc]
    """Staged batches of a topic; options as of `source_options.SourceOptions`."""

    _loaded: tuple[SourceOptions, FixedColumns] | None = None

    @classmethod
    def name(cls) -> str:
        return "sfevents"

    def schema(self) -> str:
        """Fix the columns, for as long as this query is loaded."""
        options = read_options(self.options)
        files = StagedFiles.at(options.folder)
        columns = load_columns(files, options, offsets.staged(read_topic(files, options)))
        self._loaded = options, columns
        return columns.sql()

    def reader(self, schema: StructType) -> StagedReader:
        return StagedReader(*self._as_loaded(schema))

    def streamReader(self, schema: StructType) -> StagedStreamReader:  # noqa: N802 - Spark's name
        return StagedStreamReader(*self._as_loaded(schema))

    def _as_loaded(self, schema: StructType) -> tuple[SourceOptions, FixedColumns]:
        if self._loaded is None:
            raise ConfigurationError(
                f"The columns of the source sfevents follow from event_type, and .schema(...) gave "
                f"others: {schema.simpleString()}. Leave .schema(...) out."
            )
        return self._loaded


class _ReadsRows:
    """A topic's folder, as one process sees it, and the reading of a partition in an executor."""

    def __init__(self, options: SourceOptions, fixed: FixedColumns) -> None:
        self._options = options
        self._columns = fixed

    def _look(self) -> StagedTopic:
        return read_topic(StagedFiles.at(self._options.folder), self._options)

    def _partitions_of(self, batches: Sequence[Offset]) -> list[InputPartition]:
        if not batches:
            return []
        files = StagedFiles.at(self._options.folder)
        tasks = plan_tasks(files, self._options, self._columns, batches)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition; a read without batches has one partition, None."""
        if partition is None:
            return
        task: ReadTask = partition.value
        files = StagedFiles.at(self._options.folder)
        for file in task.files:
            yield from read_rows(files, file, self._columns, task.plan)


class StagedReader(_ReadsRows, DataSourceReader):  # type: ignore[misc]
    """Read of all batches whose form is settled when the query runs."""

    def partitions(self) -> list[InputPartition]:
        """Plan the read.

        :raises ConfigurationError: no task has begun to stage the topic there.
        """
        topic = self._look()
        if not topic.epochs:
            raise ConfigurationError(
                f"Nothing was ever staged in {topic.folder}. Check `path`, or org_id, consumer and "
                "topic: a topic's folder is <staging>/<org>/<consumer>/<topic>."
            )
        return self._partitions_of(offsets.offered(topic))


class StagedStreamReader(_ReadsRows, DataSourceStreamReader):  # type: ignore[misc]
    """Stream of settled batches, each once and in order.

    Spark asks for the latest offset without saying how far the query is, so the reader keeps the
    last offset that it returned or was shown: after a restart Spark plans an empty range first.

    Nothing follows from a `commit`: other readers and reruns need the batches.
    """

    def __init__(self, options: SourceOptions, fixed: FixedColumns) -> None:
        super().__init__(options, fixed)
        self._seen: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return offsets.first_offset(self._look()).to_json()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        topic = self._look()
        seen = self._seen or offsets.first_offset(topic)
        self._seen = offsets.next_offset(topic, seen, self._options.max_batches)
        return self._seen.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, self._seen = Offset.from_json(start), Offset.from_json(end)
        if first == self._seen:
            return []
        return self._partitions_of(offsets.between(self._look(), first, self._seen))
