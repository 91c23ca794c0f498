"""Files of object stores in this process, through an `fsspec` file system that the caller gives.

For sessions of Spark Connect, whose Hadoop file systems are out of reach. A rename is a copy and a
removal there, as it is in Hadoop on the same stores.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError, SfEventsError
from airflow_provider_sfevents.spark.stores.parquet_footers import Footer, footer_of
from airflow_provider_sfevents.spark.stores.unreadable_files import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

Stores = Callable[[str], Any]
"""Gives the `fsspec` file system that reaches a URL, with its credentials."""


def local_only(url: str) -> Any:
    """Refuse each URL: no file system was given.

    :raises ConfigurationError: always.
    """
    raise ConfigurationError(
        f"{url} is not on a disk of this machine, and a session of Spark Connect gives no file "
        "system to reach it. Give `stores`, or land by spark-submit."
    )


class ObjectFiles:
    """Operations on files of a store, by URL (`files.Files`)."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def is_local(self, url: str) -> bool:  # noqa: ARG002 - each store answers it
        """A local path is this machine's; Spark's own default file system is not known here."""
        return True

    def exists(self, url: str) -> bool:
        with self._at(url) as fs:
            return bool(fs.exists(url))

    def footer(self, url: str, column: str) -> Footer | None:
        with self._at(url) as fs:
            try:
                with fs.open(url, "rb") as file:
                    return footer_of(file, column)
            except FileNotFoundError:
                return None

    def read_bytes(self, url: str) -> bytes:
        with self._at(url) as fs:
            return bytes(fs.cat_file(url))

    def create(self, url: str, content: bytes) -> bool:
        """Make a file that is not there yet; where the store can, only one of two makes it."""
        with self._at(url) as fs:
            if fs.exists(url):
                return False
            try:
                fs.pipe_file(url, content, mode="create")
            except OSError:
                # Clients repeat a request whose answer was lost, and the second one finds the
                # object of the first.
                if not fs.exists(url):
                    raise
                return bool(fs.cat_file(url) == content)
        return True

    def write_in_place(self, url: str, content: bytes) -> None:
        """Write a file, which appears whole."""
        with self._at(url) as fs:
            fs.pipe_file(url, content)

    write_staged = write_in_place

    def make_folder(self, url: str) -> None:
        """Make an empty object as the folder, so that the folder is there without a file in it."""
        self.write_in_place(f"{url}/{FOLDER}", b"")

    def move(self, source: str, target: str) -> None:
        with self._at(target) as fs:
            fs.copy(source, target)
            fs.rm_file(source)

    def names(self, url: str) -> list[str]:
        with self._at(url) as fs:
            try:
                found = fs.ls(url, detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
            own = _key(fs, url)
            listed = {_key(fs, one).removeprefix(own).strip("/") for one in found}
            return sorted(listed - {"", FOLDER})

    def walk(self, url: str) -> Iterator[str]:
        with self._at(url) as fs:
            own = _key(fs, url)
            with suppress(FileNotFoundError):
                for path in fs.find(url):
                    name = _key(fs, path).removeprefix(own).strip("/")
                    if name and name.rpartition("/")[2] != FOLDER:
                        yield name

    def remove(self, url: str) -> None:
        with self._at(url) as fs, suppress(FileNotFoundError):
            fs.rm(url, recursive=True)

    def remove_if_empty(self, url: str) -> None:
        if not self.names(url):
            with self._at(url) as fs, suppress(FileNotFoundError):
                fs.rm_file(f"{url}/{FOLDER}")

    @contextmanager
    def _at(self, url: str) -> Iterator[Any]:
        """Give the file system of a URL, and name the URL in its errors, in one line."""
        fs = self._stores(url)
        fs.invalidate_cache()  # other processes write there
        try:
            yield fs
        except (SfEventsError, GeneratorExit):
            raise
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise refused(url, said) from error


FOLDER = ".folder"
"""Name of the empty object that stands for a folder."""


def _key(fs: Any, path: str) -> str:
    return str(fs._strip_protocol(path)).strip("/")  # noqa: SLF001 - fsspec has no other name for it
