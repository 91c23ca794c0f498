"""Processes that end with this one.

Each is in its own session, so that Ctrl-C reaches it from here, once and in order.

1. SIGTERM and Ctrl-C are one request to stop: the first raises `KeyboardInterrupt`, and later ones
do not interrupt the ending. `make` passes SIGTERM on to its commands, so that a signal to its
process group arrives twice.

2. Every process that was started here is ended, with all its descendants in any session: Airflow's
tasks and Spark's driver have their own sessions.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

END_SECONDS = 5
_LOOK_SECONDS = 0.1
_STOPS = (signal.SIGINT, signal.SIGTERM)

# The exception's line of a traceback; a line of level error; the last line of a failed Spark job.
_TELLING = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception)\b: |.*\[(?:error|critical) *\] (?!Task failed with exc)"
    r"|.*Not landed: |error: "
)
# Time and level before Airflow's lines; which logger said it, and from where, behind them.
_AROUND = re.compile(r"^\S+Z \[\w+ *\] | \[[\w.]+\](?: \w+=\S+)* loc=.*$")


class CannotRunError(Exception):
    """Something on this machine is in the way; the message says what, and what to do about it."""


def stop_on_signals() -> None:
    """Have SIGTERM and Ctrl-C raise `KeyboardInterrupt` here, once."""
    for one in _STOPS:
        signal.signal(one, _stop)


def _stop(_signal: int, _frame: object) -> None:
    for one in _STOPS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Let a request to stop that comes during the block take effect after it."""
    came: list[int] = []
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in _STOPS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    handlers = [before[signal.Signals(number)] for number in came]
    for handler in handlers[:1]:
        if callable(handler):
            handler(came[0], None)


@contextlib.contextmanager
def running(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the length of a block; it and what it started are gone afterwards.

    :param log: takes what it says, anew.
    """
    process = None
    try:
        with deferred_signals():  # or a process could be started and not be known here
            process = start(command, log=log, environment=environment, folder=folder)
        yield process
    finally:
        if process is not None:
            end([process])


def start(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    """A process to be ended by `end`."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(
    processes: Iterable[subprocess.Popen[bytes]], patience_seconds: float = END_SECONDS
) -> None:
    """End all of them and their descendants, at last by SIGKILL; no signal interrupts this."""
    asked = list(processes)
    with deferred_signals():
        started = _started_by(asked)
        for process in asked:
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + patience_seconds
        while any(process.poll() is None for process in asked) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            started |= _started_by(asked)
        for process in asked:
            # Also what it started and left behind.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _kill(started)


def _started_by(processes: Iterable[subprocess.Popen[bytes]]) -> set[psutil.Process]:
    """The children of processes, and theirs; one whose parent has ended is found before that."""
    found: set[psutil.Process] = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.update(psutil.Process(process.pid).children(recursive=True))
    return found


def _kill(processes: Iterable[psutil.Process]) -> None:
    """End processes, and what they have started meanwhile, for certain."""
    waited = set(processes)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            waited.update(process.children(recursive=True))
    for process in waited:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(waited), timeout=END_SECONDS)


def what_went_wrong(log: Path, most: int = 2) -> list[str]:
    """The lines of a log that say why something failed, or its last words."""
    lines = [line.rstrip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [_AROUND.sub("", line) for line in lines if _TELLING.match(line)]
    return list(dict.fromkeys(telling or lines))[-most:] or ["it said nothing"]
