"""Writes that are atomic and, if need be, exclusive: for every file in the staging area.

Two kinds of store are supported. In a local folder (any mounted file system with hard links) the
bytes go to a hidden file in the same folder, are forced to the disk, and get their name in one
step. Every other store is used through `fsspec`, where an object appears with all of its bytes or
not at all.

Every function raises `StagingError` for any answer of a store other than "does not exist" and
"exists already": an error of the store must not be taken for a missing file.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from airflow_provider_sfevents.exceptions import SfEventsError, StagingError
from airflow_provider_sfevents.staging.storage import file_modes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upath import UPath

_LOCAL = frozenset({"", "file", "local"})

_EXCLUSIVE = frozenset({"memory", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Stores that refuse to create what exists (`memory`: within its one process).

S3 by `If-None-Match: *` (since 2024; most imitations too), Google by `ifGenerationMatch=0`, Azure
by `If-None-Match: *`.
"""

_NOT_ALLOWED = (
    "Let the user that Airflow's workers run as write there, or set `staging` to another location. "
    f"If another user has made it, see the setting {file_modes.OPTION}."
)
_FILE_IN_THE_WAY = (
    "A file is where a folder must be: remove it, or set `staging` to another location."
)
_REMEDIES = {
    errno.ENOSPC: "Free space there, or set `staging` to another location.",
    errno.EDQUOT: "Free space there, or set `staging` to another location.",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: "It is mounted read-only; set `staging` to another location.",
    errno.EEXIST: _FILE_IN_THE_WAY,
    errno.ENOTDIR: _FILE_IN_THE_WAY,
    errno.ENOENT: (
        "It was removed while in use; keep a staging area until its batches are committed."
    ),
}
_UNNUMBERED = (
    (PermissionError, errno.EACCES),
    (FileNotFoundError, errno.ENOENT),
    (FileExistsError, errno.EEXIST),
)
_LONG_SECONDS = 24 * 3600
"""Age at which an unfinished file is left over: longer than any write, or difference of clocks."""

_OTHERWISE = (
    "Check that the store exists and answers, then try again; or set `staging` to another location."
)


def is_local(path: UPath) -> bool:
    """Return whether the path is in this machine's file tree (which may be a network mount)."""
    return path.protocol in _LOCAL


def local_path(path: UPath) -> Path:
    """Return the path as one of this machine's file tree.

    :raises ValueError: the path is not local.
    """
    if not is_local(path):
        raise ValueError(f"{path} is not a local path")
    return Path(path.path).absolute()


def url(path: UPath) -> str:
    """Return a path's URL: absolute, without an Airflow connection in it; `UPath` can parse it."""
    if is_local(path):
        return f"file://{local_path(path)}"
    return without_connection(str(path))


def without_connection(address: str) -> str:
    """Remove the connection id that `ObjectStoragePath` accepts: `s3://aws_default@bucket/key`."""
    scheme, found, rest = address.partition("://")
    authority, slash, key = rest.partition("/")
    # In `abfs://container@account.dfs.core.windows.net` the part before the @ is the container.
    bare = authority if scheme.startswith("abfs") else authority.rpartition("@")[2]
    return f"{scheme}{found}{bare}{slash}{key}"


def supports_exclusive_create(path: UPath) -> bool:
    """Return whether the store lets only one of two writers create the same file.

    Otherwise `max_active_runs=1` is needed.
    """
    if is_local(path):
        return True
    return path.protocol in _EXCLUSIVE and _takes_create_mode(path.fs)


def writes_whole(path: UPath) -> bool:
    """Return whether the store never shows half of a file, even if its writer is killed."""
    return is_local(path) or path.protocol in _EXCLUSIVE


def create_once(path: UPath, data: bytes) -> bool:
    """Create a file with this content, unless it exists; returns whether it was created.

    If an answer was lost on the way, the content decides who created the file. So each writer's
    data must be different.

    :raises StagingError: nothing was written.
    """
    with told(path, "be created"):
        if is_local(path):
            return _link_once(local_path(path), data)
        if supports_exclusive_create(path):
            return _create_object(path, data)
        return _look_then_write(path, data)


def replace(path: UPath, data: bytes, *, durable: bool = True) -> None:
    """Write the content to a new or existing file; readers see the old or the new, never a mixture.

    :param durable: False skips the wait for the disk; for data that may be lost in a power cut.
    """
    with told(path, "be written"):
        if not is_local(path):
            path.fs.pipe_file(path.path, data)
            return
        target = local_path(path)
        with _hidden(target, data, durable=durable) as hidden:
            hidden.replace(target)
        if durable:
            _sync_folder(target.parent)


def ensure_content(path: UPath, data: bytes) -> bool:
    """Make sure that a file holds this content; returns whether other content had to be replaced.

    :raises StagingError: it does not, and cannot be written.
    """
    found = read(path)
    if found == data:
        return False
    replace(path, data)
    return found is not None


def read(path: UPath) -> bytes | None:
    """Return the content of a file; None if there is certainly no such file."""
    with told(path, "be read"):
        try:
            return (
                local_path(path).read_bytes()
                if is_local(path)
                else bytes(path.fs.cat_file(path.path))
            )
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_tail(path: UPath, size: int = 65_536) -> bytes | None:
    """Return a file's last bytes, all if it is shorter; None if there is certainly no such file."""
    with told(path, "be read"):
        try:
            with path.fs.open(path.path, "rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - size))
                return bytes(file.read())
        except FileNotFoundError:
            return None


def names(folder: UPath) -> list[str]:
    """Return the sorted names of a folder's direct children; empty if there is no such folder."""
    with told(folder, "be listed"):
        try:
            if is_local(folder):
                return sorted(os.listdir(local_path(folder)))  # noqa: PTH208 - names, not paths
            folder.fs.invalidate_cache(folder.path)  # other processes write there
            found = folder.fs.ls(folder.path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
    listed = {name.strip("/") for name in found} - {folder.path.strip("/")}  # some list it too
    return sorted(name.rpartition("/")[2] for name in listed)


def remove(path: UPath) -> None:
    """Remove a file, or a folder with its content; a missing one is no error."""
    with told(path, "be removed"):
        if is_local(path):
            target = local_path(path)
            with suppress(FileNotFoundError):
                shutil.rmtree(target) if target.is_dir() else target.unlink()
            return
        with suppress(FileNotFoundError):
            path.fs.invalidate_cache(path.path)
            path.fs.rm(path.path, recursive=True)


def hidden_beside(target: UPath) -> Path:
    """Return a path in the target's folder for a local file in progress; the folder is made.

    :raises StagingError: the folder cannot be made.
    """
    with told(target, "be created"):
        path = local_path(target)
        make_folder(path.parent)
        return path.with_name(_hidden_name(path.name))


def reveal(hidden: Path, target: UPath) -> None:
    """Give a closed file from `hidden_beside` its name, once its bytes are on the disk.

    :raises StagingError: it could not be named and is removed.
    """
    with told(target, "be written"):
        try:
            with hidden.open("rb") as file:
                os.fsync(file.fileno())
            hidden.replace(local_path(target))
            _sync_folder(hidden.parent)
        finally:
            hidden.unlink(missing_ok=True)


def is_leftover(name: str) -> bool:
    """Return whether a file is unfinished: its writer was killed or is still writing."""
    return name.startswith(".") and name.endswith(".tmp")


def remove_leftovers(folder: UPath) -> None:
    """Remove a local folder's unfinished direct children whose writers are long gone."""
    if not is_local(folder):
        return
    now = datetime.now(UTC).timestamp()
    for name in filter(is_leftover, names(folder)):
        with told(folder / name, "be removed"), suppress(FileNotFoundError):
            if now - local_path(folder / name).stat().st_mtime > _LONG_SECONDS:
                remove(folder / name)


def _hidden_name(name: str) -> str:
    """Return a unique name that no reader takes for a finished file."""
    return f".{name}.{secrets.token_hex(6)}.tmp"


def _create_object(path: UPath, data: bytes) -> bool:
    try:
        path.fs.pipe_file(path.path, data, mode="create")
    except Exception as error:
        # The clients repeat a request whose answer was lost; the second request then finds the
        # object of the first. And S3 answers two writers at the same moment with a conflict of its
        # own. In both cases the content decides.
        there = read(path)
        if there is None or not isinstance(error, OSError):
            raise
        return there == data
    return True


def _look_then_write(path: UPath, data: bytes) -> bool:
    """Read, then write; two writers at once may both believe that they were first."""
    there = read(path)
    if there is None:
        path.fs.pipe_file(path.path, data)
        there = read(path)
    if there is None:
        raise StagingError(
            f"{path} was written and cannot be read: this store shows writes late, so nothing can "
            "be staged there. Set `staging` to another location."
        )
    return there == data


def _takes_create_mode(fs: Any) -> bool:
    """Return whether the file system knows `mode="create"` itself; fsspec's default races."""
    method = getattr(fs, "_pipe_file", None) or fs.pipe_file
    if getattr(method, "__module__", "").startswith(("fsspec.spec", "fsspec.asyn")):
        return False
    parameters = set(inspect.signature(method).parameters)
    return "mode" in parameters or {"overwrite", "kwargs"} <= parameters  # the latter: adlfs


def _link_once(target: Path, data: bytes) -> bool:
    with _hidden(target, data, durable=True) as hidden:
        try:
            os.link(hidden, target)
        except FileExistsError:
            if not target.samefile(hidden):  # if it is: the first answer was lost
                return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
                raise
            raise StagingError(
                f"{target} cannot be created: the file system there has no hard links, without "
                "which two tasks could take the same batch. Set `staging` to a location on a local "
                "disk, NFS or an object store."
            ) from error
    _sync_folder(target.parent)
    return True


@contextmanager
def _hidden(target: Path, data: bytes, *, durable: bool) -> Iterator[Path]:
    """Write a hidden file beside the target; it is removed afterwards unless it was moved."""
    make_folder(target.parent)
    hidden = target.with_name(_hidden_name(target.name))
    try:
        with open_new(hidden) as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield hidden
    finally:
        hidden.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder, and its parents, so that they survive a power cut; modes as in `modes`."""
    missing = [folder] if not folder.is_dir() else []
    while missing and not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        try:
            one.mkdir(file_modes.at_first().folder)
        except FileExistsError:
            if not one.is_dir():
                raise
        else:
            file_modes.apply_to_folder(one)
        _sync_folder(one.parent)


def open_new(path: Path) -> BinaryIO:
    """Create a file and open it for writing; its mode as in `modes`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file_modes.at_first().file)
    try:
        file_modes.apply_to_file(handle, path)
    except BaseException:
        os.close(handle)
        path.unlink()
        raise
    return os.fdopen(handle, "wb")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def told(path: UPath, doing: str) -> Iterator[None]:
    """Raise every error of a store's client as a `StagingError`: path, reason, remedy.

    :param doing: the failed operation, in the passive: `be written`.
    """
    try:
        yield
    except SfEventsError:
        raise
    except Exception as error:
        code, said = _reason(error)
        if code == errno.ENOENT and not is_local(path):  # no folders there: the bucket is missing
            code = 0
        said = re.sub(r"\?\S+", "?...", said)[:500]  # the query of a URL may carry a signature
        raise StagingError(
            f"{path} cannot {doing}: {said}. {_REMEDIES.get(code, _OTHERWISE)}"
        ) from error


def _reason(error: Exception) -> tuple[int, str]:
    """Return the errno and the text of an error; object stores' clients often set no errno."""
    said = str(error) or type(error).__name__
    if not isinstance(error, OSError):
        return 0, said
    unnumbered = (code for kind, code in _UNNUMBERED if isinstance(error, kind))
    return error.errno or next(unnumbered, 0), error.strerror or said
