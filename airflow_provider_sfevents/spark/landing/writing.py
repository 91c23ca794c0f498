"""Files that an attempt writes into its own folder before anything is published.

Written rows are counted by split (the staged files that one task reads). Only a split with too few
rows is read once more, for the quarantine.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.tables import file_moves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.schema.event_columns import EventType

logger = logging.getLogger(__name__)

OPEN_FILES = 10
"""Dates of a split that are written side by side.

A usual one has one or two; Spark sorts what comes of further ones.
"""

_ALL_DIFFERENT = (envelope.EVENT_ID, envelope.REPLAY_ID, envelope.ORDINAL, envelope.RAW_PAYLOAD)
"""Columns of which Parquet would make a dictionary of the values, to drop it: no value comes twice.
"""


class AttemptWriter:
    """Writes a batch's tables below the folder of an attempt.

    :param spark: the session of the tables.
    :param folder: the attempt's.
    """

    def __init__(
        self,
        spark: SparkSession,
        files: Files,
        batch: StagedBatch,
        folder: str,
        *,
        keep_payload: bool,
    ) -> None:
        self._spark = spark
        self._files = files
        self._batch = batch
        self._folder = folder
        self._keep_payload = keep_payload
        self._left_out: frozenset[int] = frozenset()
        self._lacking: list[int] = []
        self._written: dict[str, dict[str, int]] = {}
        self._times: dict[str, tuple[int, int]] = {}
        self.schemas: dict[str, StructType] = {}

    def first_reason(self) -> str:
        """Return the reason of the first event in the quarantine that was written."""
        found = (
            self._spark.read.parquet(f"{self._folder}/{file_moves.QUARANTINE}/*")
            .orderBy(envelope.ORDINAL)
            .first()
        )
        return str(found[envelope.REASON]) if found else "unknown"

    @property
    def written(self) -> dict[str, int]:
        """Rows by written file, relative to the attempt's folder."""
        return {path: rows for table in self._written.values() for path, rows in table.items()}

    @property
    def left_out(self) -> frozenset[int]:
        """Ordinals of the duplicates, which were written first and then left out."""
        return self._left_out

    def times(self, table: str) -> tuple[datetime | None, datetime | None]:
        """Smallest and largest event time of a table's rows."""
        found = [at for path in self._written[table] for at in self._times.get(path, ())]
        if not found:
            return None, None
        return _instant(min(found)), _instant(max(found))

    def rows(self) -> dict[str, int]:
        """Number of rows by table; tables without rows are left out."""
        counts = {table: sum(paths.values()) for table, paths in self._written.items()}
        return {table: rows for table, rows in counts.items() if rows}

    def write(self) -> None:
        self._write_types(self._batch.plan.types)
        self._lacking = self._splits_lacking()
        if self._lacking:
            self._write_quarantine()

    def leave_out(self, found: Mapping[str, AbstractSet[int]]) -> None:
        """Rewrite the tables that hold these events without them.

        :param found: ordinals by table.
        """
        self._left_out = self._left_out.union(*found.values())
        for table in found:
            self._files.remove(f"{self._folder}/{table}")
            self._written.pop(table, None)
        self._write_types(kind for kind in self._batch.plan.types if kind.name in found)
        if file_moves.QUARANTINE in found:
            self._write_quarantine()

    def _write_types(self, kinds: Iterable[EventType]) -> None:
        """Write all events of some types, in parallel.

        Events of one schema are written in staged order. Events of several schemas are read schema
        by schema, and therefore sorted.
        """
        in_order: list[EventType] = []
        sorted_anew: list[EventType] = []
        for kind in kinds:
            (in_order if len(kind.schemas) == 1 else sorted_anew).append(kind)
        self._keep_open(OPEN_FILES)
        side_by_side(partial(self._write_type, in_order=True), in_order)
        self._keep_open(0)
        side_by_side(partial(self._write_type, in_order=False), sorted_anew)

    def _keep_open(self, files: int) -> None:
        """Let a task write so many dates at once; Spark sorts the rows if there are more dates."""
        self._spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(files))

    def _write_type(self, kind: EventType, *, in_order: bool) -> None:
        rows = self._batch.decoded(
            self._spark,
            kind,
            keep_payload=self._keep_payload,
            left_out=self._left_out,
            splits=self._batch.splits,
        )
        self._write(kind.name, rows, in_order=in_order)

    def _write_quarantine(self) -> None:
        self._write(file_moves.QUARANTINE, self._quarantined(), in_order=False)

    def _quarantined(self) -> DataFrame:
        splits = [self._batch.splits[index] for index in self._lacking]
        return self._batch.undecodable(self._spark, splits, left_out=self._left_out)

    def _write(self, table: str, rows: DataFrame, *, in_order: bool) -> None:
        """Add rows to the files that were written for the table.

        One split is one task, so that each of its dates becomes one file, in the batch's order.

        :param in_order: the tasks' rows are in that order already, of whatever dates: they are
            written as they come.
        """
        began = time.monotonic()
        steps.reached(steps.LANDING_WRITE, table)
        self.schemas[table] = _without(rows.schema, envelope.SPLIT)
        if not in_order:
            rows = rows.sortWithinPartitions(envelope.EVENT_DATE, envelope.SPLIT, envelope.ORDINAL)
        writer = rows.write.mode("append").partitionBy(envelope.EVENT_DATE, envelope.SPLIT)
        plain = {f"parquet.enable.dictionary#{column}": "false" for column in _ALL_DIFFERENT}
        writer.options(**plain).option(
            "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
        ).parquet(f"{self._folder}/{table}")
        self._files.check_shared(f"{self._folder}/{table}")
        before = self._written.get(table, {})
        paths = [
            f"{table}/{path}"
            for path in self._files.walk(f"{self._folder}/{table}")
            if path.endswith(".parquet")
        ]
        counts = {path: before[path] for path in paths if path in before}
        counts |= self._counted([path for path in paths if path not in before])
        self._written[table] = counts
        logger.info(
            "%s: %s in %s written in %.1f s.",
            table,
            counted(sum(counts.values()), "row"),
            counted(len(counts), "file"),
            time.monotonic() - began,
        )

    def _counted(self, paths: list[str]) -> dict[str, int]:
        """Rows of files that were just written."""
        urls = (f"{self._folder}/{path}" for path in paths)
        footers = self._files.footers(urls, envelope.EVENT_TIME)
        counts: dict[str, int] = {}
        for path, footer in zip(paths, footers, strict=True):
            if footer is None:
                raise StagingError(
                    f"{self._folder}/{path} was removed right after it was written: another "
                    "attempt is at work on this batch. Run the task again."
                )
            counts[path] = footer.rows
            if footer.low is not None and footer.high is not None:
                self._times[path] = footer.low, footer.high
        return counts

    def _splits_lacking(self) -> list[int]:
        """Indexes of the splits in which an event was not decoded."""
        splits = self._batch.splits
        decoded = dict.fromkeys(range(len(splits)), 0)
        for path, rows in self.written.items():
            decoded[file_moves.split_of(path)] += rows
        return [split.index for split in splits if decoded[split.index] != split.events]


def _without(schema: StructType, column: str) -> StructType:
    return type(schema)([field for field in schema.fields if field.name != column])


def _instant(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
