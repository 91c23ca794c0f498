"""The folder of an emulator: what must be there again after a restart.

lock                    held by the emulator that runs with this folder
orgs.json               who the orgs are, and the ports their addresses name
<org id>/bus.log        what happened on the bus, and bus.000001.log and so on after it, see `journal`
<org id>/managed.json   managed subscriptions and what is committed, see `managed.registry`
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from tempfile import mkstemp
from typing import Any, BinaryIO

from airflow_provider_sfevents.emulator.errors import EmulatorError

_ORGS = "orgs.json"
_LOCK = "lock"
_VERSION = 2
_READABLE = (1, 2)  # before 2, a bus had one log, which only grew


def lock(folder: Path) -> BinaryIO:
    """Keep other emulators off a folder, until what is returned is closed or this process ends.

    :raises EmulatorError: when another one has it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    except OSError as error:
        raise EmulatorError(
            f"cannot write to folder {folder}: {error.strerror}; make it writable, or name another folder"
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
    """Read what was written about orgs and ports; empty for a new folder.

    :raises EmulatorError: when the file is not one of ours.
    """
    path = folder / _ORGS
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text())
        known = value["version"] in _READABLE
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
    """Replace what is written about orgs and ports, whole or not at all."""
    replace_file(folder / _ORGS, json.dumps({**value, "version": _VERSION}, indent=1))


def replace_file(path: Path, text: str) -> None:
    """Write a file that only its user can read, whole or not at all.

    It has a random name first, which nothing has yet. So nothing is written through a link that was
    put into a folder that others may write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
