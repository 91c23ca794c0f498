"""Processes that end with us, and what is read from their logs."""

from __future__ import annotations

import fcntl
import os
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
    """Exceptions' own lines and lines of level error tell, once each and without when and where they were logged; else the last words do."""
    path = tmp_path / "log"
    path.write_text(log)
    assert what_went_wrong(path) == said
