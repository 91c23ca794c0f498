"""Stop a process at one of the package's named steps, so that a test can kill exactly there.

`tests.harness.warm_airflow` installs it in the processes that it forks, `tests/proof/driver_site`
in a Spark driver. A stopped process (SIGSTOP) does nothing in any of its threads until it is killed
or continued; everything that it did before the step is done.

The kernel continues the stopped processes of a group whose last link to its session dies, as a
task's group with its supervisor. Such a process stops again, unless `may_go_on` allows it to
continue. SIGHUP, which comes with it, is ignored (`tests.harness.warm_airflow`).

Standard library only, because every Python that Spark starts loads this module.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

EVENT = "airflow_provider_sfevents.step"
REPORT, STOP_AT = "SFEVENTS_PROOF_REPORT", "SFEVENTS_PROOF_STOP_AT"
SIGNAL = "SFEVENTS_PROOF_SIGNAL"


def install(report: str, stop_at: str) -> None:
    """Write each step of this process and its forks to a file, one JSON line each.

    :param stop_at: `name` or `name:3`: the process stops when it reaches the step for the first or
        the third time. Empty: never.
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
            while not may_go_on(report, os.getpid()).exists():
                # To this thread: a signal to the process may stop another thread first.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    sys.addaudithook(hear)


def may_go_on(report: str, pid: int) -> Path:
    """Path of the file whose existence allows a stopped process to continue."""
    return Path(f"{report}.{pid}")


def install_signal(report: str, order: str) -> None:
    """Send this process's task a signal some time after a step, and report its leases.

    The report gets `signalled` (the order) before the signal, and `released` (seconds since then)
    for each lease that is released afterwards.

    :param order: `step:nth:how:seconds`; `how` is `timeout` (Airflow's own timer expires at once)
        or `terminate` (SIGTERM for the supervisor, which forwards it). Empty: nothing.
    """
    if order:
        sys.addaudithook(_Signal(report, order))


class _Signal:
    """Audit hook for the signal; forked processes have it, too."""

    def __init__(self, report: str, order: str) -> None:
        self._report, self._order = report, order
        self._step, nth, self._how, seconds = order.split(":")
        self._nth, self._seconds = int(nth), float(seconds)
        self._seen: Counter[int] = Counter()
        self._sent: dict[int, float] = {}

    def __call__(self, event: str, said: tuple[object, ...]) -> None:
        if event == EVENT and said[0] == self._step:
            self._seen[os.getpid()] += 1
            if self._seen[os.getpid()] == self._nth:
                threading.Thread(target=self._send, daemon=True).start()
        if (
            event == "os.rename"
            and os.getpid() in self._sent
            and str(said[1]).endswith(".released")
        ):
            _write(self._report, {"released": time.monotonic() - self._sent[os.getpid()]})

    def _send(self) -> None:
        time.sleep(self._seconds)  # a random moment
        if self._how == "timeout" and not signal.getitimer(signal.ITIMER_REAL)[0]:
            return  # the task has ended
        self._sent[os.getpid()] = time.monotonic()
        _write(self._report, {"signalled": self._order})
        if self._how == "timeout":
            signal.setitimer(signal.ITIMER_REAL, 1e-6)
        else:
            os.kill(os.getppid(), signal.SIGTERM)


def install_from_environment() -> None:
    """Install both in a process whose environment has the orders."""
    if REPORT in os.environ:
        install(os.environ[REPORT], os.environ.get(STOP_AT, ""))


def say(report: str, **said: object) -> None:
    """Add a line to a report."""
    _write(report, said)


def _write(report: str, said: dict[str, object]) -> None:
    line = {**said, "pid": os.getpid(), "parent": os.getppid(), "at": time.time()}
    handle = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(handle)
