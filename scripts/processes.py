"""Processes that end with us: each in a session of its own, so that Ctrl-C reaches them from here, once and in order."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

END_SECONDS = 5

# An exception's own line in a traceback; a line of level error; what our Spark job says when it gives up.
_TELLING = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception)\b: |.*\[(?:error|critical) *\] (?!Task failed with exc)|.*Not landed: |error: "
)
# Time and level before Airflow's lines; which logger said it, and from where, behind them.
_AROUND = re.compile(r"^\S+Z \[\w+ *\] | \[[\w.]+\](?: \w+=\S+)* loc=.*$")


class CannotRun(Exception):  # noqa: N818 - what happened, not an -Error
    """Something on this machine is in the way; the message says what, and what to do about it."""


@contextlib.contextmanager
def running(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the length of a block; it and what it started are gone afterwards.

    :param log: takes what it says, anew.
    """
    process = start(command, log=log, environment=environment, folder=folder)
    try:
        yield process
    finally:
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
    """Ask all of them to end, and end what does not; another Ctrl-C does not cut this short."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    all_of_them = list(processes)
    for process in all_of_them:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + patience_seconds
    for process in all_of_them:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        # Also what it started and left behind, say a Spark job.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    signal.signal(signal.SIGINT, before)


def what_went_wrong(log: Path, most: int = 2) -> list[str]:
    """The lines of a log that say why something failed, or its last words."""
    lines = [line.rstrip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [_AROUND.sub("", line) for line in lines if _TELLING.match(line)]
    return list(dict.fromkeys(telling or lines))[-most:] or ["it said nothing"]
