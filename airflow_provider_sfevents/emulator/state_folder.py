"""Folder of an emulator: the state that survives a restart.

lock                    held by the running emulator of this folder
orgs.json               identities of the orgs, and the ports in their URLs
<org id>/bus.log        journal of the bus, continued in bus.000001.log etc., see `bus.journal`
<org id>/managed.json   managed subscriptions and committed replay ids, see `managed`
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from tempfile import mkstemp
from typing import Any, BinaryIO

from airflow_provider_sfevents.emulator.errors import EmulatorError, UnwritableError

_ORGS = "orgs.json"
_LOCK = "lock"
_VERSION = 2


def lock(folder: Path) -> BinaryIO:
    """Lock a folder against other emulators until the result is closed or the process ends.

    :raises EmulatorError: another emulator holds the lock, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    except OSError as error:
        raise EmulatorError(
            f"cannot write to folder {folder}: {error.strerror}; make it writable, or name another "
            "folder"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise EmulatorError(
            f"folder {folder} is in use by another emulator; stop that one, or name another folder"
        ) from error
    except OSError as error:
        file.close()
        raise EmulatorError(
            f"folder {folder} cannot be locked: {error.strerror}; name one on a local disk"
        ) from error
    return file


def read_orgs(folder: Path) -> dict[str, Any]:
    """Read the saved orgs and ports; empty for a new folder.

    :raises EmulatorError: the file is not an emulator's.
    """
    path = folder / _ORGS
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text())
        known = value["version"] == _VERSION
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmulatorError(
            f"{path} is not an emulator's: {error}; name another folder, or remove it"
        ) from error
    if not known:
        raise EmulatorError(
            f"{path} has version {value['version']!r}; this release reads {_VERSION}"
        )
    return dict(value)


def write_orgs(folder: Path, value: dict[str, Any]) -> None:
    """Save orgs and ports atomically."""
    replace_file(folder / _ORGS, json.dumps({**value, "version": _VERSION}, indent=1))


def replace_file(path: Path, text: str, remedy: str = "begin a new folder") -> None:
    """Write a file atomically, readable by its user only.

    It first has a random name that does not exist yet, so nothing is written through a link that
    another user put into a shared folder.

    :param remedy: advice if it cannot be written, besides to make room.
    :raises UnwritableError: it cannot be written; the file stays as it is.
    """
    new: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
        new = Path(name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except BaseException as error:
        if new is not None:
            new.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise UnwritableError(
            f"cannot write to {path}: {error.strerror}; make room there, or {remedy}"
        ) from error
