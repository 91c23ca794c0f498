"""The ledger of Parquet tables: few Parquet files in the folder `_batches`.

1. A landing's file `<batch id>-r<revision>.parquet` holds one row. It is renamed into place as the
   last effect of a landing (`file_moves.publish`); landing the batch again makes a file of the next
   revision, then removes the earlier one.
2. Of several rows of a batch the one of the highest revision counts.
3. Once there are more than `MOST` such files, the next landing writes their rows, and those of the
   last folded file, into `folded-<n>.parquet`, which only one of two landings can create.
4. A later landing removes files whose rows are all in a folded file of a higher number. So a reader
   that lists the folder never misses a row, even if files come and go meanwhile, and a kill between
   the two steps changes nothing.
"""

from __future__ import annotations

import io
import logging
import re
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.file_moves import Mark
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow, LedgerView

logger = logging.getLogger(__name__)

MOST = 48
"""Files of one row each that may be there before they are folded."""

FULL = 50_000
"""A folded file with so many rows stays as it is; the next one begins without its rows."""

_FOLDED = "folded"
_SINGLE = re.compile(r"(?P<batch_id>.+)-r(?P<revision>\d+)\.parquet")
_FOLD = re.compile(rf"{_FOLDED}-(?P<number>\d{{5,}})\.parquet")
_READS = 3


class LedgerFiles(Protocol):
    """File operations of the ledger; `files.Files` has them."""

    def names(self, url: str) -> list[str]: ...

    def read_bytes(self, url: str) -> bytes: ...

    def create(self, url: str, content: bytes) -> bool: ...

    def remove(self, url: str) -> None: ...


class FileLedger:
    """Ledger of Parquet tables.

    :param spark: session that skips no file.
    :param root: of the tables.
    """

    def __init__(self, spark: SparkSession, files: LedgerFiles, root: str) -> None:
        self._spark = spark
        self._files = files
        self.label = f"{root}/{ledger.TABLE}"

    def version(self) -> object:
        return self._names()

    def view(self, batch_id: str) -> LedgerView:
        """Read what concerns a batch, in one Spark job."""
        wanted = f"`batch_id` = {text(batch_id)} OR `new_schemas` > 0"
        return ledger.view_of(self._read(lambda rows: rows.where(wanted)), batch_id)

    def claim(self, row: LedgerRow) -> None:
        """Nothing to do: an attempt whose folder has been removed has no file to rename."""

    def rows(self) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        rows = self._frame()
        latest = F.max_by(F.struct(*rows.columns), "revision").alias("latest")
        return rows.groupBy("batch_id").agg(latest).select("latest.*")

    def mark(self, row: LedgerRow) -> Mark:
        """Make the file that says that a batch has landed."""
        return Mark(
            batch_id=row.batch_id,
            target=f"{ledger.TABLE}/{row.batch_id}-r{row.revision}.parquet",
            content=_to_parquet([row.to_values()]),
        )

    def tidy(self, row: LedgerRow) -> None:
        """Remove files of the batch's earlier revisions, then fold, or remove what has been folded.

        A failure is logged and changes nothing: the next landing does it.
        """
        try:
            for name in self._names():
                found = _SINGLE.fullmatch(name)
                if found and found["batch_id"] == row.batch_id and _key(found)[1] < row.revision:
                    self._files.remove(self._url(name))
            fold(self._files, self.label)
        except StagingError as error:
            logger.info(
                "The ledger %s was not folded (%s); a later landing does it.", self.label, error
            )

    def _read(self, narrow: Any) -> list[Mapping[str, Any]]:
        """Read rows; once more if a file was folded away between listing and reading."""
        if not self._names():
            return []
        for tries_left in reversed(range(_READS)):
            try:
                found: list[Mapping[str, Any]] = narrow(self._frame()).toArrow().to_pylist()
            except Exception:
                if not tries_left:
                    raise
            else:
                return found
        return []

    def _frame(self) -> DataFrame:
        if not self._names():
            return self._spark.createDataFrame([], ledger.columns())
        return self._spark.read.schema(ledger.columns()).parquet(self.label)

    def _names(self) -> tuple[str, ...]:
        names = self._files.names(self.label)
        return tuple(one for one in names if one.endswith(".parquet") and one[0] not in "._")

    def _url(self, name: str) -> str:
        return f"{self.label}/{name}"


def fold(files: LedgerFiles, folder: str, most: int = MOST, full: int = FULL) -> None:
    """Fold a ledger's files if there are more than `most` of one row.

    The removal of what is folded is left to the next call.

    :raises StagingError: a file cannot be read or written; nothing is lost.
    """
    names = files.names(folder)
    singles = {name: _key(found) for name in names if (found := _SINGLE.fullmatch(name))}
    if len(singles) <= most:
        return
    folds = sorted(name for name in names if _FOLD.fullmatch(name))
    newest = _rows(files, folder, folds[-1:])
    revisions = {row["batch_id"]: row["revision"] for row in newest}
    if covered := [name for name, key in singles.items() if _has(revisions, *key)]:
        for earlier in folds[-2:-1]:
            rows = _rows(files, folder, [earlier])
            if all(_has(revisions, row["batch_id"], row["revision"]) for row in rows):
                covered.insert(0, earlier)
        for name in covered:
            files.remove(f"{folder}/{name}")
        return
    kept = newest if len(newest) < full else []
    content = _to_parquet(_highest([*kept, *_rows(files, folder, singles)]))
    number = 1 + max((int(_FOLD.fullmatch(one)["number"]) for one in folds), default=0)  # type: ignore[index]
    url = f"{folder}/{_FOLDED}-{number:05d}.parquet"
    files.create(url, content)


def _rows(files: LedgerFiles, folder: str, names: Iterable[str]) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables: list[pa.Table] = [
        pq.read_table(pa.BufferReader(files.read_bytes(f"{folder}/{name}"))) for name in names
    ]
    return [row for table in tables for row in table.to_pylist()]


def _highest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row of each batch, that of its highest revision; in the order of batches."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.get(row["batch_id"])
        if known is None or known["revision"] <= row["revision"]:
            found[row["batch_id"]] = row
    return sorted(found.values(), key=lambda row: (row["epoch"], row["batch_number"]))


def _to_parquet(rows: Iterable[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), ledger.COLUMNS), stream)
    return stream.getvalue()


def _key(found: re.Match[str]) -> tuple[str, int]:
    return found["batch_id"], int(found["revision"])


def _has(revisions: Mapping[str, int], batch_id: str, revision: int) -> bool:
    return revisions.get(batch_id, 0) >= revision
