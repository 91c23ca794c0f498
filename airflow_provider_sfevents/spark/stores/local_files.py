"""Files on a disk of this machine: Python does in microseconds what takes several calls to Java."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyarrow import ArrowException

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.stores.parquet_footers import Footer, footer_of
from airflow_provider_sfevents.spark.stores.unreadable_files import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAKINGS = 100
"""Tries to make a folder: each further one lost a race with a landing that removed its parent."""

_LOCAL = re.compile(r"(?:file:(?://[^/]*)?)?(?P<path>/.*)", re.DOTALL)


def local_path(url: str) -> Path | None:
    """Path of a URL as Hadoop reads it, which decodes nothing.

    None: it names another store, or a relative path.
    """
    found = _LOCAL.fullmatch(url)
    return Path(found["path"]) if found else None


class LocalFiles:
    """Operations on local files, by URL (`files.Files`)."""

    def exists(self, url: str) -> bool:
        with _named(url):
            return _path(url).exists()

    def footer(self, url: str, column: str) -> Footer | None:
        with _named(url):
            try:
                return footer_of(str(_path(url)), column)
            except FileNotFoundError:
                return None

    def read_bytes(self, url: str) -> bytes:
        with _named(url):
            return _path(url).read_bytes()

    def write_staged(self, url: str, content: bytes) -> None:
        """Write a whole file with the mode of its folder, without execution."""
        temporary = f"{url}.{uuid4().hex}.tmp"
        self.write_in_place(temporary, content)
        with _named(temporary):
            path = _path(temporary)
            path.chmod(stat.S_IMODE(path.parent.stat().st_mode) & 0o666)
        self.move(temporary, url)

    def create(self, url: str, content: bytes) -> bool:
        """Link a whole file to its name, which only one of two can do."""
        path = _path(url)
        made = path.with_name(f".{uuid4().hex}.tmp")
        with _named(url):
            _make_folder(path.parent)
            try:
                made.write_bytes(content)
                path.hardlink_to(made)
            except FileExistsError:
                return False
            finally:
                made.unlink(missing_ok=True)
        return True

    def write_in_place(self, url: str, content: bytes) -> None:
        with _named(url):
            path = _path(url)
            _make_folder(path.parent)
            path.write_bytes(content)

    def make_folder(self, url: str) -> None:
        with _named(url):
            _make_folder(_path(url))

    def move(self, source: str, target: str) -> None:
        with _named(target):
            _path(source).replace(_path(target))

    def names(self, url: str) -> list[str]:
        with _named(url):
            try:
                return sorted(one.name for one in _path(url).iterdir())
            except FileNotFoundError:
                return []

    def walk(self, url: str) -> Iterator[str]:
        with _named(url):
            yield from _below(str(_path(url)), "")

    def remove(self, url: str) -> None:
        path = _path(url)
        with _named(url):
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            except OSError:
                if path.exists():
                    raise

    def remove_if_empty(self, url: str) -> None:
        with suppress(OSError):
            _path(url).rmdir()


def _path(url: str) -> Path:
    path = local_path(url)
    if path is None:
        raise StagingError(f"{url} is not on a disk of this machine.")
    return path


def _make_folder(path: Path) -> None:
    """Make a folder and its parents, one of which another landing may remove meanwhile."""
    for tries_left in reversed(range(_MAKINGS)):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileNotFoundError, FileExistsError) as error:
            # `mkdir` also reports a folder that was there, and is gone when it looks again.
            is_file = isinstance(error, FileExistsError) and _is_file(error.filename)
            if is_file or not tries_left:
                raise
        else:
            return


def _is_file(path: str) -> bool:
    """Look once: of two looks, the second may come after the folder has gone."""
    try:
        return not stat.S_ISDIR(Path(path).stat().st_mode)
    except OSError:
        return False


def _below(folder: str, prefix: str) -> Iterator[str]:
    try:
        found = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for one in found:
        name = f"{prefix}{one.name}"
        if one.is_dir():
            yield from _below(one.path, f"{name}/")
        else:
            yield name


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Report which file the operating system refused, in one line."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise refused(url, f"{error.filename} is not a directory") from error
    except (PermissionError, FileNotFoundError) as error:
        said = f"{error.strerror}. Check the path, and that Spark's user may read and write there"
        raise refused(url, said) from error
    except OSError as error:
        raise refused(url, error.strerror or str(error)) from error
    except ArrowException as error:
        raise refused(url, " ".join(str(error).split())) from error
