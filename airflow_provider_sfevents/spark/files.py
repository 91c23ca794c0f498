"""Files by URL: a local disk is reached by Python, every other store by a file system.

A classic session brings the file systems of its Spark. A session of Spark Connect has none in
reach, so this process needs file systems of its own: the caller gives them as `stores`.

On a local disk no checksum files are written: Hadoop's hidden `.crc` files outlive the files they
belong to, and a reader that meets a stale one fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.remote import is_remote
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.stores.hadoop_files import HadoopFiles
from airflow_provider_sfevents.spark.stores.local_files import LocalFiles, local_path
from airflow_provider_sfevents.spark.stores.object_files import ObjectFiles, local_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.stores.object_files import Stores
    from airflow_provider_sfevents.spark.stores.parquet_footers import Footer

_OTHER_DISK = (
    "{} has written into {}, and what it wrote is not {}: the Spark Connect server has another "
    "disk there, or may not read this one. Nothing was landed. Give an object store, or a folder "
    "that both have under this path; or land by spark-submit."
)


class Files:
    """Operations of a landing on files. Each raises `StagingError` if the store refuses.

    :param stores: for a session of Spark Connect: gives the `fsspec` file system that reaches a
        URL. Default: only URLs of local disks can be reached.
    """

    def __init__(self, spark: SparkSession, stores: Stores | None = None) -> None:
        self._local = LocalFiles()
        self._spark = spark
        self._is_remote = is_remote(spark)
        self._other: HadoopFiles | ObjectFiles = (
            ObjectFiles(stores or local_only) if self._is_remote else HadoopFiles(spark)
        )

    def exists(self, url: str) -> bool:
        return self._store(url).exists(url)

    def row_counts(self, urls: Iterable[str]) -> dict[str, int | None]:
        """Rows of Parquet files, by their footers; None where there is no such file."""
        wanted = list(urls)
        found = zip(wanted, self.footers(wanted), strict=True)
        return {url: None if one is None else one.rows for url, one in found}

    def footers(self, urls: Iterable[str], column: str = "") -> list[Footer | None]:
        """Read footers of Parquet files, in their order; None where there is no such file.

        Several at a time: at a store that is far away it is the way that takes long.

        :param column: whose range is wanted: one of the first, of integers.
        """
        return side_by_side(lambda url: self._store(url).footer(url, column), urls)

    def read_text(self, url: str) -> str:
        return self.read_bytes(url).decode()

    def read_bytes(self, url: str) -> bytes:
        return self._store(url).read_bytes(url)

    def write_staged(self, url: str, text: str) -> None:
        """Write a whole file into the staging area; on a disk with its folder's mode."""
        self._store(url).write_staged(url, text.encode())

    def create(self, url: str, content: bytes) -> bool:
        """Make a file that is not there yet, which only one of two can do; False: it is there."""
        return self._store(url).create(url, content)

    def write_in_place(self, url: str, content: bytes) -> None:
        """Write a file that has no reader yet; its folder is made if need be."""
        self._store(url).write_in_place(url, content)

    def make_folder(self, url: str) -> None:
        """Make a folder and its parents, also if another landing removes an empty one meanwhile."""
        self._store(url).make_folder(url)

    def move(self, source: str, target: str) -> None:
        """Rename a file over what is there: in one step on disks and HDFS, by copying elsewhere."""
        self._store(target).move(source, target)

    def names(self, url: str) -> list[str]:
        """Names of what a folder holds, sorted; none when there is no folder."""
        return self._store(url).names(url)

    def walk(self, url: str) -> Iterator[str]:
        """Every file below a folder, as a path relative to it.

        What comes or goes meanwhile may be among them or not.
        """
        return self._store(url).walk(url)

    def remove(self, url: str) -> None:
        """Delete a file, or a folder with all in it.

        Nothing there is fine, and so is a twin that is quicker.
        """
        self._store(url).remove(url)

    def remove_if_empty(self, url: str) -> None:
        """Delete a folder that holds nothing; a twin that puts something in meanwhile keeps it."""
        self._store(url).remove_if_empty(url)

    def check_shared(self, folder: str) -> None:
        """Check that what Spark has just written into a local folder is on this machine.

        :raises ConfigurationError: it is not: a Spark Connect server has a disk of its own there.
        :raises StagingError: the folder is gone.
        """
        if self._may_differ(folder) and not self._local.exists(f"{folder}/_SUCCESS"):
            self._ensure_there(folder)
            raise ConfigurationError(_OTHER_DISK.format("Spark", folder, "on this machine"))

    def check_seen(self, folder: str) -> None:
        """Check that Spark sees the local folder which this process has just written into.

        :raises ConfigurationError: it does not, as of `check_shared`; `StagingError` likewise.
        """
        from pyspark.errors import AnalysisException

        if not self._may_differ(folder):
            return
        try:
            _ = self._spark.read.schema("one int").parquet(folder).schema
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            self._ensure_there(folder)
            there = "where the Spark Connect server reads"
            raise ConfigurationError(_OTHER_DISK.format("This process", folder, there)) from error

    def _ensure_there(self, folder: str) -> None:
        if not self._local.exists(folder):
            raise removed_meanwhile(folder)

    def _may_differ(self, folder: str) -> bool:
        """Tell whether Spark may have another folder under this path, on a disk of its own."""
        return self._is_remote and local_path(folder) is not None

    def _store(self, url: str) -> LocalFiles | HadoopFiles | ObjectFiles:
        is_local = local_path(url) is not None and self._other.is_local(url)
        return self._local if is_local else self._other


def removed_meanwhile(url: str) -> StagingError:
    """Make the error for a file or folder of an attempt that another attempt has removed."""
    return StagingError(
        f"{url} was removed right after it was written: another attempt is at work on this batch. "
        "Run the task again."
    )
