"""Processes that end with us, and what is read from their logs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from scripts.processes import running, what_went_wrong

if TYPE_CHECKING:
    from pathlib import Path

# Takes a lock that lasts as long as this process or the one it starts.
_PARENT = """
import fcntl, os, subprocess, sys
held = open("held", "w")
fcntl.flock(held, fcntl.LOCK_EX)
os.set_inheritable(held.fileno(), True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
print("ready", flush=True)
child.wait()
"""


@pytest.mark.timeout(60)
def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    """After the block neither the process nor its child is there."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", _PARENT]
    with running(command, log=log, environment=dict(os.environ), folder=tmp_path) as process:
        while log.read_text() != "ready\n":
            assert process.poll() is None
    with (tmp_path / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # waits until both are gone


# Starts a child in its own session, like Airflow's tasks and Spark's driver, and ends at SIGTERM.
_ESCAPING = _PARENT.replace("close_fds=False)", "close_fds=False, start_new_session=True)")

# Starts another program in a `running` block, and prints the signals that reach it; `end` waits
# for a process that ignores SIGTERM.
_STOPPED = """
import os, sys
from pathlib import Path
from scripts.processes import running, stop_on_signals
stop_on_signals()
try:
    program = [sys.executable, "-c", sys.argv[1]]
    with running(program, log=Path("log"), environment=os.environ, folder=Path()) as one:
        one.wait()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
_STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _PARENT.lstrip()


@pytest.mark.timeout(60)
def test_what_left_the_session_ends_too(tmp_path: Path) -> None:
    """A process that a child put into another session is ended with it."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", _ESCAPING]
    with running(command, log=log, environment=dict(os.environ), folder=tmp_path) as process:
        while log.read_text() != "ready\n":
            assert process.poll() is None
    with (tmp_path / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)


@pytest.mark.timeout(60)
def test_a_second_signal_does_not_cut_the_ending_short(tmp_path: Path, repository: Path) -> None:
    """A second SIGTERM does not keep `end` from waiting for a process that ignores the first."""
    stopping = subprocess.Popen(
        [sys.executable, "-c", _STOPPED, _STUBBORN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        text=True,
    )
    log = tmp_path / "log"
    while not log.exists() or log.read_text() != "ready\n":
        assert stopping.poll() is None
    while stopping.poll() is None:
        stopping.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            stopping.wait(0.2)
    assert stopping.stdout is not None
    with stopping.stdout as said:
        assert (stopping.returncode, said.read()) == (0, "stopped\n")
    with (tmp_path / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "2026-01-01T00:00:00Z [info     ] Fetching [a.b] loc=b.py:1\n"
            "Traceback (most recent call last):\n"
            '  File "x.py", line 1, in f\n'
            "airflow.sdk.exceptions.AirflowException: no such topic\n"
            "2026-01-01T00:00:01Z [info     ] DagRun Finished [a.b] loc=c.py:1\n",
            ["airflow.sdk.exceptions.AirflowException: no such topic"],
        ),
        (
            "2026-01-01T00:00:00Z [error    ] Failed to import: x.py [a.b_c] ti=1 loc=b.py:1\n",
            ["Failed to import: x.py"],
        ),
        (
            "2026-01-01T00:00:00Z [info     ] sfevents: Not landed: no room [a.b] loc=b.py:1\n"
            "2026-01-01T00:00:01Z [error    ] Task failed with exception [task] loc=c.py:1\n"
            "sfevents: Not landed: no room\n",
            ["sfevents: Not landed: no room"],
        ),
        ("starting\n\nKilled\n", ["starting", "Killed"]),
        ("", ["it said nothing"]),
    ],
)
def test_a_log_is_asked_why(tmp_path: Path, log: str, said: list[str]) -> None:
    """Reasons from a log are its exceptions and error lines, once each; otherwise its end."""
    path = tmp_path / "log"
    path.write_text(log)
    assert what_went_wrong(path) == said
