"""Files that an attempt writes into its own folder before anything is published."""

from __future__ import annotations

import io
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.spark.avro.decoder_needs import EXECUTORS_NEED, lacking
from airflow_provider_sfevents.spark.files import removed_meanwhile
from airflow_provider_sfevents.spark.landing.landed_batch import FEW, FEW_BYTES
from airflow_provider_sfevents.spark.landing.table_files import FILE, PARTITIONS, PIECE, SEPARATOR
from airflow_provider_sfevents.spark.remote import is_remote
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.stores.parquet_footers import Footer, footer_of
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.sessions import FEW_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Set as AbstractSet

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.landing.table_files import FileTask

logger = logging.getLogger(__name__)

_OF_WORKER = FEW, 4 * 2**20
"""Events, and their bytes, that the driver decodes over Spark Connect.

It is an Airflow worker there, and decoding takes twenty times the memory of the payloads.
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
        self._times: dict[str, tuple[int, int]] = {}
        self.written: dict[str, int] = {}
        """Rows by written file, relative to the attempt's folder."""
        self.contents: dict[str, bytes] = {}
        """Contents of the files that the driver wrote."""
        self.left_out: frozenset[int] = frozenset()
        """Ordinals of the duplicates, which were written first and then left out."""

    def first_reason(self) -> str:
        """Return the reason of the first event in the quarantine that was written."""
        folder = f"{self._folder}/{file_moves.folder_of(file_moves.QUARANTINE)}"
        found = self._spark.read.parquet(folder).orderBy(envelope.ORDINAL).first()
        return str(found[envelope.REASON]) if found else "unknown"

    def times(self, table: str) -> tuple[datetime | None, datetime | None]:
        """Smallest and largest event time of a table's rows."""
        paths = (path for path in self.written if file_moves.table_of(path) == table)
        found = [at for path in paths for at in self._times.get(path, ())]
        if not found:
            return None, None
        return _instant(min(found)), _instant(max(found))

    def rows(self) -> dict[str, int]:
        """Number of rows by table; tables without rows are left out."""
        counts: dict[str, int] = {}
        for path, rows in self.written.items():
            table = file_moves.table_of(path)
            counts[table] = counts.get(table, 0) + rows
        return counts

    def schema(self, table: str) -> StructType:
        """Columns of a table with what was written."""
        return self._batch.table_schema(table, keep_payload=self._keep_payload)

    def write(self) -> None:
        """Write all tables."""
        if self._batch.manifest.events:
            self._write(None)

    def leave_out(self, found: Mapping[str, AbstractSet[int]]) -> None:
        """Rewrite the tables that hold these events without them.

        :param found: ordinals by table.
        """
        self.left_out = self.left_out.union(*found.values())
        for table in found:
            self._files.remove(f"{self._folder}/{file_moves.folder_of(table)}")
        for path in [path for path in self.written if file_moves.table_of(path) in found]:
            del self.written[path]
            self.contents.pop(path, None)
        self._write(frozenset(found))

    def _write(self, tables: frozenset[str] | None) -> None:
        """Add the files of these tables; None: of all.

        One split is one task, so that each of its dates becomes one file of a table, in the
        batch's order.
        """
        began = time.monotonic()
        manifest = self._batch.manifest
        steps.reached(steps.LANDING_WRITE, manifest.batch_id)
        task = self._batch.file_task(
            self._spark, keep_payload=self._keep_payload, left_out=self.left_out, tables=tables
        )
        most, most_bytes = _OF_WORKER if is_remote(self._spark) else (FEW_ROWS, FEW_BYTES)
        few = manifest.events <= most and manifest.bytes <= most_bytes
        # The driver may lack a decoder that the executors have.
        is_here = few and not lacking(EXECUTORS_NEED)
        footers = self._write_here(task) if is_here else self._write_there(task)
        for path, footer in footers.items():
            self.written[path] = footer.rows
            if footer.low is not None and footer.high is not None:
                self._times[path] = footer.low, footer.high
        logger.info(
            "%s in %s written in %.1f s.",
            counted(sum(footer.rows for footer in footers.values()), "row"),
            counted(len(footers), "file"),
            time.monotonic() - began,
        )

    def _write_here(self, task: FileTask) -> dict[str, Footer]:
        """Decode and write a small batch in the driver.

        An executor's Python takes seconds to start, and Hadoop starts processes for each file that
        it writes on a disk.
        """
        found: dict[str, bytes] = {}
        for table, date, split, _, piece in self._batch.files_here(self._files, task):
            path = file_moves.written_path(table, date, split)
            found[path] = found.get(path, b"") + piece + SEPARATOR.encode()
        side_by_side(
            lambda one: self._files.write_in_place(f"{self._folder}/{one}", found[one]), found
        )
        self._files.check_seen(self._folder)
        self.contents |= found
        return {
            path: footer_of(io.BytesIO(one), envelope.EVENT_TIME) for path, one in found.items()
        }

    def _write_there(self, task: FileTask) -> dict[str, Footer]:
        """Let the tasks write files."""
        pieces = self._batch.files_of_tasks(self._spark, task)
        rows = pieces.sortWithinPartitions(*PARTITIONS, PIECE)
        writer = rows.selectExpr(*PARTITIONS, f"CAST({FILE} AS STRING) AS {FILE}").write
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        writer.mode("append").partitionBy(*PARTITIONS).text(
            self._folder, compression="none", lineSep=SEPARATOR
        )
        self._files.check_shared(self._folder)
        paths = [
            path
            for path in self._files.walk(self._folder)
            if path.endswith(file_moves.SUFFIX) and path not in self.written
        ]
        urls = (f"{self._folder}/{path}" for path in paths)
        footers = dict(zip(paths, self._files.footers(urls, envelope.EVENT_TIME), strict=True))
        for path, footer in footers.items():
            if footer is None:
                raise removed_meanwhile(f"{self._folder}/{path}")
        return {path: footer for path, footer in footers.items() if footer}


def _instant(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
