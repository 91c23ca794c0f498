"""Parquet: folders of files that landings rename into place (`file_moves.publish`).

There is no commit.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.remote import spark_errors
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables import file_moves, naming
from airflow_provider_sfevents.spark.tables.parquet.file_ledger import FileLedger
from airflow_provider_sfevents.spark.tables.parquet.foreign_files import ForeignFiles
from airflow_provider_sfevents.spark.tables.projection import rows_by_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.tables.interface import Attempt, KnownRows, Standing
    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow

logger = logging.getLogger(__name__)


class ParquetTables:
    """Tables as folders of Parquet files.

    :param spark: a session that skips no file.
    """

    def __init__(self, spark: SparkSession, files: Files, root: str) -> None:
        self.spark = spark
        self._files = files
        self.root = root
        self.ledger = FileLedger(spark, files, root)

    def label(self, table: str) -> str:
        return f"{self.root}/{table}"

    def url(self, table: str) -> str:  # noqa: ARG002
        return ""

    def schema(self, table: str) -> StructType | None:
        unreadable = spark_errors()
        root = self.label(table)
        if not self._has_files(table):
            return None
        try:
            return self.read(table).schema
        except unreadable as error:
            logger.warning(
                "The files of %s cannot be read as one table (%s); nor will they be with "
                "what lands now.",
                root,
                str(error).partition("\n")[0],
            )
        with suppress(*unreadable):
            return self.spark.read.parquet(root).schema
        return None  # a damaged file is named when its rows are compared

    def standing(self, table: str, dates: Iterable[str], batch_id: str) -> Standing:
        """List the files of other batches, by folder."""
        own = file_moves.names_of(batch_id)
        others: Standing = {}
        for folder in (f"{self.label(table)}/{envelope.EVENT_DATE}={date}" for date in dates):
            files = (one for one in self._files.names(folder) if one.endswith(".parquet"))
            if names := frozenset(name for name in files if not own.fullmatch(name)):
                others[folder] = names
        return others

    def known(self, tables: Mapping[str, KnownRows], columns: str, name: str) -> DataFrame:
        folders = [folder for rows in tables.values() for folder in rows.standing]
        return rows_by_table(self.spark, columns, folders, name, 3)

    def files(self, written: Iterable[str], batch_id: str) -> tuple[str, ...]:
        return tuple(move.target for move in file_moves.plan_moves(written, batch_id))

    def publish(self, attempt: Attempt) -> None:
        replacements: tuple[file_moves.Replacement, ...] = ()
        if attempt.left_overs:
            can_replace = naming.renames_in_one_step(self.root)
            foreign = ForeignFiles(self.spark, self._files, self.root, can_replace=can_replace)
            replacements = foreign.replacements(attempt)
        file_moves.publish(
            self._files,
            self.root,
            attempt.folder,
            file_moves.plan_moves(attempt.written, attempt.landed.batch_id),
            lambda: self._files.walk(self.root) if attempt.left_overs else (),
            replacements,
            self.ledger.mark(attempt.landed),
            attempt.fence,
        )
        self.ledger.tidy(attempt.landed)

    def ensure_holds(self, landed: LedgerRow) -> None:
        """Do nothing: a file that the ledger names and that is missing was removed on purpose."""

    def read(self, table: str) -> DataFrame:
        if not self._has_files(table):
            names = self._files.names(self.root)
            known = ", ".join(name for name in names if not name.startswith(("_", "."))) or "none"
            raise ConfigurationError(f"{self.root} has no table {table}; it has: {known}.")
        return self.spark.read.option("mergeSchema", "true").parquet(self.label(table))

    def _has_files(self, table: str) -> bool:
        """Tell whether a folder holds a table; an empty folder has no columns and is none."""
        return any(path.endswith(".parquet") for path in self._files.walk(self.label(table)))
