"""Checks that a location can be a staging area, for the worker and for Spark."""

from __future__ import annotations

import errno
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.staging.storage import durable_files, file_modes
from airflow_provider_sfevents.staging.storage.durable_files import without_connection

if TYPE_CHECKING:
    from upath import UPath

_SPARK_SCHEMES = {"s3": "s3a", "gcs": "gs"}
"""Schemes that fsspec and Hadoop name differently."""

_NOT_TO_BE_MADE = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM})
"""Errors on making a folder that stay until a person acts."""

_LOCAL_SCHEMES = frozenset({"file", "local"})


def usable(root: UPath) -> bool:
    """Try every operation that a staging area needs.

    :return: whether the store lets only one of two writers create the same file.
    :raises ConfigurationError: it is a folder that cannot be made.
    :raises StagingError: it cannot be written, read, listed or emptied; the message names the
        operation and the remedy.
    """
    if durable_files.is_local(root):
        _make(durable_files.local_path(root))
        with durable_files.told(root, "be opened to its readers"):
            file_modes.open_up(durable_files.local_path(root))
    probe = root / f".sfevents-probe-{secrets.token_hex(6)}.tmp"
    try:
        exclusive = _probe(root, probe)
        durable_files.remove_leftovers(root)
    except StagingError as error:
        with suppress(StagingError):
            durable_files.remove(probe)
        said = str(error).replace(str(probe / "file"), f"A file in {root}")
        raise StagingError(said.replace(str(probe), str(root))) from error
    durable_files.remove(probe)
    return exclusive


def _make(folder: Path) -> None:
    """Make the folder of a staging area.

    :raises ConfigurationError: it cannot be made, and a retry would not change that.
    """
    try:
        durable_files.make_folder(folder)
    except OSError as error:
        if error.errno not in _NOT_TO_BE_MADE:
            return  # the probe fails in the same way, with the remedy
        import psutil  # type: ignore[import-untyped]

        there = next(parent for parent in folder.parents if parent.exists())
        raise ConfigurationError(
            f"The staging folder {folder} cannot be made: {error.strerror}. The task runs as user "
            f"{psutil.Process().username()!r}, which can make no folder in {there}. Set `staging` "
            "to a folder that this user can write, or let the user write there."
        ) from None


def _probe(root: UPath, folder: UPath) -> bool:
    file = folder / "file"
    durable_files.create_once(file, b"1")
    again = durable_files.create_once(file, b"2")
    _expect(
        durable_files.read(file) == (b"2" if again else b"1"),
        root,
        "what was written does not read back",
    )
    _expect(durable_files.names(folder) == ["file"], root, "what was written is not listed")
    durable_files.replace(file, b"3")
    _expect(durable_files.read(file) == b"3", root, "what was replaced reads as it was before")
    return durable_files.supports_exclusive_create(root) and not again


def spark_url(place: UPath | str) -> str:
    """Return the URL of a location for Spark: Hadoop's scheme, absolute, without a connection.

    :raises ConfigurationError: Spark cannot reach the location at all.
    """
    scheme, found, rest = str(place).partition("://")
    if not found or scheme in _LOCAL_SCHEMES:
        return f"file://{Path(rest if found else scheme).absolute()}"
    if scheme == "memory":
        raise ConfigurationError(
            f"Spark cannot read {place}: it is in the memory of one Python process. Set `staging` "
            "to a folder or an object store."
        )
    return without_connection(f"{_SPARK_SCHEMES.get(scheme, scheme)}://{rest}")


def ensure_spark_can_read(path: UPath | str, master: str, *, shared: bool = False) -> None:
    """Refuse a folder of this machine for a Spark that runs on other machines.

    :param master: Spark's master URL; `local`, `local[2]`, `local-cluster[...]` run here.
    :param shared: the user declares that all machines see the same folder there (NFS, a shared
        volume).
    :raises ConfigurationError: before an event is fetched.
    """
    url = spark_url(path)
    if not url.startswith("file:") or shared or master.startswith("local"):
        return
    raise ConfigurationError(
        f"Staging area {url} is a folder of this machine, and Spark runs at {master}, which "
        "probably cannot see it. Set `staging` to an object store; or, if all machines mount the "
        "same folder there, declare it with `staging_shared=True`."
    )


def _expect(fulfilled: bool, root: UPath, otherwise: str) -> None:
    if not fulfilled:
        raise StagingError(
            f"{root} cannot be a staging area: {otherwise}. Set `staging` to another location."
        )
