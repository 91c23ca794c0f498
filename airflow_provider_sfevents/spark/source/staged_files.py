"""Files of a topic's folder, read by PyArrow. No Spark: the source runs in Python alone.

Neither a JVM nor fsspec is there in the processes of a Python data source. Credentials of an object
store come from the environment of these processes, as PyArrow finds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.stores.local_files import local_path
from airflow_provider_sfevents.spark.stores.unreadable_files import (
    FileGoneError,
    error_line,
    naming,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyarrow import NativeFile

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Schemes that Hadoop and fsspec name differently from PyArrow."""

_AT_ONCE = 16

_ACCESS = (
    "The driver's and the executors' processes need access to the staging area from their own "
    "environment."
)
DAMAGED = (
    "If the file is damaged, restore it, or read its batch from the event table and start the "
    "query with a new checkpoint."
)
"""Advice on a file that could be opened."""


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """Files by URL; each operation raises `StagingError` if the store refuses."""

    filesystem: Any

    @classmethod
    def at(cls, url: str) -> StagedFiles:
        """Open the store of a URL.

        :raises ConfigurationError: PyArrow has no file system for it.
        """
        if local_path(url) is not None:
            return cls(fs.LocalFileSystem())
        parts = urlsplit(url)
        if not parts.scheme:
            raise ConfigurationError(
                f"`path` {url!r} is relative. Give an absolute path, or a URL of a store."
            )
        scheme = _SCHEMES.get(parts.scheme, parts.scheme)
        try:
            found, _ = fs.FileSystem.from_uri(f"{scheme}://{parts.netloc}/")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ConfigurationError(
                f"{url} cannot be read: {error_line(error)}. Give `path` as a local path, or as a "
                "URL of a store that PyArrow reads (s3, gs, abfs, hdfs)."
            ) from error
        return cls(found)

    def walk(self, folder: str) -> list[str]:
        """List all files below a folder, as paths relative to it."""
        base = _path(folder)
        with naming(folder, _ACCESS):
            found = self.filesystem.get_file_info(
                fs.FileSelector(base, recursive=True, allow_not_found=True)
            )
        return [one.path[len(base) :].lstrip("/") for one in found if one.type == fs.FileType.File]

    def read_text(self, url: str) -> str:
        with self.open(url) as file, naming(url, _ACCESS):
            return bytes(file.read()).decode(errors="replace")

    def read_texts(self, urls: Iterable[str]) -> dict[str, str]:
        """Read several files side by side; one that is gone is left out."""

        def text(url: str) -> str | None:
            try:
                return self.read_text(url)
            except FileGoneError:
                return None

        wanted = list(dict.fromkeys(urls))
        found = zip(wanted, side_by_side(text, wanted, _AT_ONCE), strict=True)
        return {url: one for url, one in found if one is not None}

    def open(self, url: str) -> NativeFile:
        """Open a file.

        :raises FileGoneError: there is none.
        """
        with naming(url, _ACCESS):
            return self.filesystem.open_input_file(_path(url))


def _path(url: str) -> str:
    """Path of a URL for its file system: names are taken as they are, nothing is decoded."""
    local = local_path(url)
    if local is not None:
        return str(local)
    scheme, _, rest = url.partition("://")
    store, slash, key = rest.partition("/")
    # A container of Azure has its account behind an `@`.
    return f"/{key}" if scheme == "hdfs" else f"{store.partition('@')[0]}{slash}{key}"
