"""Foreign clients, installed by the machine's own npm and pip and kept in a folder.

`tests/foreign/clients` pins their versions. If they cannot be installed, the error says why, and
the test fails: an emulator that was not tried with them is not known to work.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS = Path(__file__).parents[1] / "foreign/clients"
_NPM_FILES = ("package.json", "package-lock.json")
_REQUIREMENTS = "requirements.txt"
_COMPLETE = "complete"
_SECONDS = 600


class ClientsMissingError(Exception):
    """npm or pip could not install the clients; the message says why."""


def cache_folder() -> Path:
    """Folder of the clients between runs; `SFEVENTS_CLIENTS` names another one."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(os.environ.get("SFEVENTS_CLIENTS", f"{home}/sfevents-clients"))


def node_modules() -> Path:
    """Folder `node_modules` with the client for Node.

    :raises ClientsMissingError: without Node 20 or npm, or if npm cannot install a package.
    """

    def make(folder: Path) -> None:
        for name in _NPM_FILES:
            shutil.copy(CLIENTS / name, folder)
        # Install scripts of packages do not run, because none of these needs one.
        options = ("--engine-strict", "--ignore-scripts", "--no-audit", "--no-fund")
        _run("npm", "ci", *options, cwd=folder)

    lock = b"".join((CLIENTS / name).read_bytes() for name in _NPM_FILES)
    return _made("node", lock, make) / "node_modules"


def python(requirements: str = _REQUIREMENTS, interpreter: str = sys.executable) -> Path:
    """Interpreter of an environment that has only the clients for Python.

    :param requirements: file of `tests/foreign/clients` that pins them.
    :param interpreter: Python that they run on.
    :raises ClientsMissingError: if pip cannot install a package.
    """

    def make(folder: Path) -> None:
        _run(interpreter, "-m", "venv", "venv", cwd=folder)
        options = ("--disable-pip-version-check", "--no-input", "--no-deps", "--quiet")
        pins = str(CLIENTS / requirements)
        _run("venv/bin/python", "-m", "pip", "install", *options, "-r", pins, cwd=folder)

    of = sys.version if interpreter == sys.executable else interpreter
    lock = (CLIENTS / requirements).read_bytes() + of.encode()
    return _made("python", lock, make) / "venv/bin/python"


def _made(name: str, lock: bytes, make: Callable[[Path], None]) -> Path:
    """Folder made from this lock file, once; a folder that was left incomplete is made again."""
    folder = cache_folder() / f"{name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / _COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / _COMPLETE).touch()
    return folder


def _run(*command: str, cwd: Path) -> None:
    what = " ".join(command[:3])
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError as missing:
        raise ClientsMissingError(
            f"There is no {command[0]} on this machine to get the packages of {CLIENTS}."
        ) from missing
    except subprocess.TimeoutExpired as late:
        raise ClientsMissingError(
            f"`{what}` did not end within {_SECONDS} s; is the registry there?"
        ) from late
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise ClientsMissingError(
            f"`{what}` could not get the packages of {CLIENTS}: {said[-800:]}"
        )
