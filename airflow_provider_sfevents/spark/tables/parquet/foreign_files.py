"""Rows of a batch in Parquet files of other writers, such as a job that puts small files together.

A landing knows the rows of its batch by the names of their files. Where another writer has moved
them to a file of its own, landing the batch again would put each event in the table twice. So:

1. A batch that lands for the first time has no rows yet: nothing is looked at.
2. Landing again looks at the folders that the batch has or had files in. If all its files are as
   the previous landing made them, and there is no other writer's file, nothing is scanned.
3. Otherwise that folder is scanned by `batch_id`. A file with rows of the batch is rewritten
   without them, and replaces the old file after the batch's own files have moved.
4. The landing is refused, before anything changes, where that would lose rows of other batches: the
   store cannot replace a file in one step, or such rows stand in a file with a name of this batch.

There is no lock over a table. A writer that rewrites a folder while a batch lands again in it may
go unnoticed, but a file that changes between step 3 and its replacement is noticed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import NotLandedError, StagingError
from airflow_provider_sfevents.spark.remote import spark_errors
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.tables.interface import Attempt

FOLDER = "_foreign"
"""Below an attempt's own: files of other writers, without rows of the batch."""

_OF_A_LANDING = re.compile(r"[^/]+-\d+-\d{5,}\.parquet")


def folders_in_doubt(
    standing: Mapping[str, Collection[str]],
    before: Collection[str] | None,
    changed: Collection[str],
) -> list[str]:
    """Folders in which another writer may have put rows of a batch that lands again.

    :param standing: names of files by folder, of those folders that the batch has or had files in.
    :param before: the batch's files after its last landing; None: an attempt has died since.
    :param changed: those of its files that are not as a landing makes them.
    """
    wanted = before or ()
    return [
        folder
        for folder, names in sorted(standing.items())
        if names
        and (
            before is None
            or not {_name(path) for path in wanted if _folder(path) == folder} <= {*names}
            or any(_folder(path) == folder for path in changed)
            or not all(map(_OF_A_LANDING.fullmatch, names))
        )
    ]


@dataclass(frozen=True, slots=True)
class _Found:
    """Row counts of a file: all rows, and rows of the batch."""

    rows: int
    own: int


class ForeignFiles:
    """Files of other writers in Parquet tables.

    :param spark: a session that skips no file.
    :param root: of the tables.
    :param can_replace: the store replaces a file in one step.
    """

    def __init__(self, spark: SparkSession, files: Files, root: str, *, can_replace: bool) -> None:
        self._spark = spark
        self._files = files
        self._root = root
        self._can_replace = can_replace

    def replacements(self, attempt: Attempt) -> tuple[file_moves.Replacement, ...]:
        """Write a copy of each file that holds rows of the attempt's batch, without these rows.

        :raises NotLandedError: such a file cannot be replaced; nothing has been changed.
        """
        batch_id = attempt.landed.batch_id
        moves = file_moves.plan_moves(attempt.written, batch_id)
        rows = {move.target: attempt.written[move.source] for move in moves}
        folders = {_folder(path) for path in (*rows, *(attempt.before or ()))}
        standing = {folder: self._names(folder) for folder in sorted(folders)}
        there = {path: n for path, n in rows.items() if _name(path) in standing[_folder(path)]}
        row_counts = self._row_counts(there)
        changed = [path for path, number in there.items() if row_counts.get(path, number) != number]
        made: list[file_moves.Replacement] = []
        for folder in folders_in_doubt(standing, attempt.before, changed):
            for path, found in self._found(folder, batch_id):
                source = f"{FOLDER}/{len(made)}"
                kept = self._written_anew(path, found, batch_id, f"{attempt.folder}/{source}")
                part = f"{source}/{kept}" if kept else ""
                made.append(file_moves.Replacement(path=path, source=part, rows=found.rows))
        return tuple(made)

    def _names(self, folder: str) -> list[str]:
        """Names of a folder's files without hidden ones, which readers ignore as well."""
        names = self._files.names(self._url(folder))
        return [name for name in names if not name.startswith(("_", "."))]

    def _row_counts(self, paths: Iterable[str]) -> dict[str, int | None]:
        """Count rows by file; damaged files are left out, because the landing replaces them."""
        urls = {self._url(path): path for path in paths}
        counts: dict[str, int | None] = {}
        try:
            counts = self._files.row_counts(urls)
        except StagingError:
            for url in urls:
                with suppress(StagingError):
                    counts |= self._files.row_counts([url])
        return {urls[url]: number for url, number in counts.items()}

    def _found(self, folder: str, batch_id: str) -> Iterator[tuple[str, _Found]]:
        """Find other writers' files that hold rows of the batch."""
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        own_name = file_moves.names_of(batch_id)
        rows = self._spark.read.schema(f"{envelope.BATCH_ID} string").parquet(self._url(folder))
        is_own = F.col(envelope.BATCH_ID).eqNullSafe(F.lit(batch_id))
        per_file = rows.groupBy(F.col("_metadata.file_name").alias("name")).agg(
            F.count("*").alias("rows"), F.count_if(is_own).alias("own")
        )
        try:
            found = per_file.orderBy("name").collect()
        except spark_errors() as error:
            self._refuse(folder, batch_id, f"cannot be read ({_first_line(error)})", "Mend it")
        for row in found:
            path = f"{folder}/{unquote(row['name'])}"  # Spark gives it as part of a URL
            if own_name.fullmatch(path):
                if row["own"] < row["rows"]:
                    others = row["rows"] - row["own"]
                    why = f"holds {counted(others, 'row')} of other batches, which would be lost"
                    self._refuse(path, batch_id, why, "Give the file another name")
            elif row["own"]:
                yield path, _Found(row["rows"], row["own"])

    def _written_anew(self, path: str, found: _Found, batch_id: str, folder: str) -> str:
        """Write the rows of other batches into a file; return its name, empty without rows."""
        take_out = f"Take the rows of {envelope.BATCH_ID} = '{batch_id}' out of it"
        if not self._can_replace:
            rows = counted(found.own, "row")
            why = f"holds {rows} of it, and this store cannot replace a file in one step"
            self._refuse(path, batch_id, why, take_out)
        if found.own == found.rows:
            return ""
        try:
            self._without(batch_id, path).write.option("maxRecordsPerFile", 0).parquet(folder)
        except spark_errors() as error:
            why = f"holds rows of it, and cannot be written anew ({_first_line(error)})"
            self._refuse(path, batch_id, why, take_out)
        (name,) = (name for name in self._files.names(folder) if name.endswith(".parquet"))
        written = self._files.row_counts([f"{folder}/{name}"])[f"{folder}/{name}"]
        if written != found.rows - found.own:
            self._refuse(path, batch_id, "changed while it was read", "Let that program end")
        return name

    def _without(self, batch_id: str, path: str) -> DataFrame:
        others = f"NOT {envelope.BATCH_ID} <=> {text(batch_id)}"
        return self._spark.read.parquet(self._url(path)).where(others).coalesce(1)

    def _url(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _refuse(self, path: str, batch_id: str, why: str, remedy: str) -> NoReturn:
        raise NotLandedError(
            f"The rerun of batch {batch_id} meets files that another program has rewritten, and "
            f"{self._url(path)} {why}. Nothing was changed. {remedy}, then run the task again."
        )


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
