"""Stops a process at one of the package's named steps, so that whoever watches can kill it, or something else, exactly there.

Installed from outside: by `tests.harness.warm_airflow` in the processes it forks, by `tests/proof/driver_site` in a Spark driver.
A stopped process (SIGSTOP) does nothing more, in none of its threads, until it is killed or continued; what it had done, it had done.
Standard library only: every Python that Spark starts loads this.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter

EVENT = "airflow_provider_sfevents.step"
REPORT, STOP_AT = "SFEVENTS_PROOF_REPORT", "SFEVENTS_PROOF_STOP_AT"


def install(report: str, stop_at: str) -> None:
    """Write each step that this process, and any that it forks, reaches to a file, one JSON line each.

    :param stop_at: `name` or `name:3`; the process stops when it gets there for the first, the third time. Empty: never.
    """
    name, _, nth = stop_at.partition(":")
    seen: Counter[tuple[int, str]] = Counter()

    def hear(event: str, said: tuple[object, ...]) -> None:
        if event != EVENT:
            return
        here = (os.getpid(), str(said[0]))
        seen[here] += 1
        stops = said[0] == name and seen[here] == int(nth or 1)
        _write(report, {"step": said[0], "about": said[1], "stopped": stops})
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(hear)


def install_from_environment() -> None:
    """The same in a process that was started with the environment of one that has it."""
    if REPORT in os.environ:
        install(os.environ[REPORT], os.environ.get(STOP_AT, ""))


def say(report: str, **said: object) -> None:
    """Add a line of one's own to a report."""
    _write(report, said)


def _write(report: str, said: dict[str, object]) -> None:
    line = {**said, "pid": os.getpid(), "parent": os.getppid(), "at": time.time()}
    handle = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(handle)
