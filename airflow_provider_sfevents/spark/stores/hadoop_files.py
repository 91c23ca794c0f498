"""Files through Spark's own file systems: each URL that Spark reads or writes can be reached.

For classic sessions; `object_files` is for those of Spark Connect.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.stores.parquet_footers import Footer
from airflow_provider_sfevents.spark.stores.storage_jars import no_store
from airflow_provider_sfevents.spark.stores.unreadable_files import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_FS = "org.apache.hadoop.fs"
_PARQUET = "org.apache.parquet.hadoop"

_MISSING = "java.io.FileNotFoundException"

_MAKINGS = 5

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop 3.4.2 on S3: `If-None-Match: *`.

Without it a store that knows no folders looks, and writes later.
"""

_TAKEN = (
    "java.nio.file.FileAlreadyExistsException",
    f"{_FS}.FileAlreadyExistsException",
    f"{_FS}.s3a.RemoteFileChangedException",
)
"""Errors of a store if another writer was quicker; the last one is S3's answer to a condition."""


class HadoopFiles:
    """Operations on files of a store, by URL (`files.Files`)."""

    def __init__(self, spark: SparkSession) -> None:
        # The only door from Python to Hadoop's file systems.
        self._client: Any = spark._jvm._gateway_client  # noqa: SLF001 - as above
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - as above
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - as above
        self._known: dict[str, Any] = {}
        self._stores: dict[str, tuple[Any, bool]] = {}

    def exists(self, url: str) -> bool:
        with _named(url):
            path, fs = self._at(url)
            return bool(fs.exists(path))

    def footer(self, url: str, column: str) -> Footer | None:
        from py4j.protocol import Py4JJavaError

        with _named(url):
            source = self._java(f"{_PARQUET}.util.HadoopInputFile.fromPath")
            path = self._java(f"{_FS}.Path")(url)
            try:
                file = source(path, self._conf)
            except Py4JJavaError as error:
                if not self._is(error.java_exception, _MISSING):
                    raise
                return None
            reader = self._java(f"{_PARQUET}.ParquetFileReader.open")(file)
            try:
                low, high = _range(reader, column) if column else (None, None)
                return Footer(rows=int(reader.getRecordCount()), low=low, high=high)
            finally:
                reader.close()

    def read_bytes(self, url: str) -> bytes:
        with _named(url):
            path, fs = self._at(url)
            stream = fs.open(path)
            try:
                return bytes(self._java("org.apache.commons.io.IOUtils.toByteArray")(stream))
            finally:
                stream.close()

    def write_staged(self, url: str, content: bytes) -> None:
        temporary = f"{url}.{uuid4().hex}.tmp"
        self.write_in_place(temporary, content)
        self.move(temporary, url)

    def create(self, url: str, content: bytes) -> bool:
        from py4j.protocol import Py4JJavaError

        with _named(url):
            path, fs = self._at(url)
            fs.mkdirs(path.getParent())
            try:
                stream = self._begin(fs, path)
                stream.write(bytearray(content))
                stream.close()
            except Py4JJavaError as error:
                if error.java_exception.getClass().getName() not in _TAKEN:
                    raise
                return False
        return True

    def _begin(self, fs: Any, path: Any) -> Any:
        """Open a stream into a new file; it fails, at the latest at its close, if there is one."""
        if fs.hasPathCapability(path, _CONDITIONAL) and not fs.exists(path):
            return fs.createFile(path).opt(_CONDITIONAL, "true").build()
        return fs.create(path, False)

    def write_in_place(self, url: str, content: bytes) -> None:
        with _named(url):
            path, fs = self._at(url)
            stream = fs.create(path, True)
            stream.write(bytearray(content))
            stream.close()

    def make_folder(self, url: str) -> None:
        for tries_left in reversed(range(_MAKINGS)):
            try:
                with _named(url):
                    path, fs = self._at(url)
                    fs.mkdirs(path)
            except StagingError:
                if not tries_left:
                    raise
            else:
                return

    def move(self, source: str, target: str) -> None:
        with _named(target):
            start, end = self._at(source)[0], self._at(target)[0]
            rename = self._java(f"{_FS}.Options$Rename")
            options = self._gateway.new_array(rename, 1)
            options[0] = rename.OVERWRITE
            context = self._java(f"{_FS}.FileContext.getFileContext")
            context(start.toUri(), self._conf).rename(start, end, options)

    def names(self, url: str) -> list[str]:
        with _named(url):
            path, fs = self._at(url)
            # Joined in Java: asking for one name after the other takes seconds where there are
            # thousands.
            statuses = self._as_array_of(f"{_FS}.FileStatus", self._listed(fs, path))
            paths = self._java(f"{_FS}.FileUtil.stat2Paths")(statuses)
            listed = self._as_array_of("java.lang.Object", paths)
            joined = str(self._java("org.apache.commons.lang3.StringUtils.join")(listed, "\n"))
            return sorted(name.rpartition("/")[2] for name in joined.splitlines())

    def walk(self, url: str) -> Iterator[str]:
        with _named(url):
            path, fs = self._at(url)
            yield from self._below(fs, path, "")

    def _below(self, fs: Any, folder: Any, prefix: str) -> Iterator[str]:
        # Not `listFiles`: on a local disk that starts a process for each file, to learn its owner.
        for status in self._listed(fs, folder):
            path = status.getPath()
            name = f"{prefix}{path.getName()}"
            if status.isDirectory():
                yield from self._below(fs, path, f"{name}/")
            else:
                yield name

    def _as_array_of(self, kind: str, array: Any) -> Any:
        """A copy: py4j finds no method for an array of a subclass, such as S3's file statuses."""
        length = len(array)
        copy = self._gateway.new_array(self._java(kind), length)
        self._java("java.lang.System.arraycopy")(array, 0, copy, 0, length)
        return copy

    def _listed(self, fs: Any, folder: Any) -> Any:
        """List a folder; nothing when there is none, or none any more."""
        from py4j.protocol import Py4JJavaError

        try:
            return fs.listStatus(folder)
        except Py4JJavaError as error:
            if not self._is(error.java_exception, _MISSING):
                raise
            return self._gateway.new_array(self._java(f"{_FS}.FileStatus"), 0)

    def remove(self, url: str) -> None:
        try:
            self._delete(url, recursive=True)
        except StagingError:
            if self.exists(url):
                raise

    def remove_if_empty(self, url: str) -> None:
        if not self.names(url):
            # Another writer was quicker; and an empty folder that stays does no harm.
            with suppress(StagingError):
                self._delete(url, recursive=False)

    def _delete(self, url: str, *, recursive: bool) -> None:
        with _named(url):
            path, fs = self._at(url)
            fs.delete(path, recursive)

    def _at(self, url: str) -> tuple[Any, Any]:
        path = self._java(f"{_FS}.Path")(url)
        store = _store_of(url)
        if store not in self._stores:
            fs = path.getFileSystem(self._conf)
            if self._is(fs, f"{_FS}.ChecksumFileSystem"):
                fs = fs.getRawFileSystem()
            self._stores[store] = fs, self._is(fs, f"{_FS}.RawLocalFileSystem")
        return path, self._stores[store][0]

    def is_local(self, url: str) -> bool:
        """Tell whether the store of a URL is a disk of this machine."""
        store = _store_of(url)
        if store not in self._stores:
            self._at(url)
        return self._stores[store][1]

    def _java(self, name: str) -> Any:
        """Look up a class, or its method, by its full name, once.

        By its parts it takes a call to Java for each of them, and seconds in all.
        """
        if name not in self._known:
            from py4j.java_gateway import JavaClass

            owner, _, last = name.rpartition(".")
            if last[0].isupper():
                self._known[name] = JavaClass(name, self._client)
            else:
                self._known[name] = getattr(JavaClass(owner, self._client), last)
        return self._known[name]

    def _is(self, thing: Any, kind: str) -> bool:
        return bool(self._java("py4j.reflection.TypeUtil.isInstanceOf")(kind, thing))


def _range(reader: Any, column: str) -> tuple[int | None, int | None]:
    """Smallest and largest value of a column, by the statistics of a footer."""
    found: list[int] = []
    for block in reader.getFooter().getBlocks():
        chunk = next(one for one in block.getColumns() if one.getPath().toDotString() == column)
        statistics = chunk.getStatistics()
        if statistics is not None and statistics.hasNonNullValue():
            found += [int(statistics.genericGetMin()), int(statistics.genericGetMax())]
    return (min(found), max(found)) if found else (None, None)


def _store_of(url: str) -> str:
    """Scheme and authority of a URL: what is the same for all files of a store."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Say which file it was, in one line, instead of a Java stack trace."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        said = " ".join(str(error.java_exception.toString()).split())
        if unknown := no_store(said):
            raise ConfigurationError(f"{url}: {unknown}") from error
        raise refused(url, said) from error
