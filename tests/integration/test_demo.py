"""`make demo` as a person would run it, without make: the script, its printed figures, what it leaves."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def _demo(
    repository: Path, folder: Path, timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.demo"],
        cwd=repository,
        env={**os.environ, "DEMO_FOLDER": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


def _figures(said: str) -> list[tuple[int, int, int, str, str]]:
    """Of each DAG run: events in, delivered, landed, position before, position after."""
    rows = re.findall(
        r"events in (\d+), delivered \(billed\) (\d+), rows landed (\d+)\n +position: (.+) -> (.+)\n",
        said,
    )
    return [(int(a), int(b), int(c), before, after) for a, b, c, before, after in rows]


@pytest.mark.full
@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_demo_lands_every_event_once_and_then_only_what_came_since(
    repository: Path, tmp_path: Path
) -> None:
    """Three DAG runs: each lands as many rows as events waited and were delivered; the second begins where the first ended."""
    ended = _demo(repository, tmp_path / "demo", timeout_seconds=850)

    assert ended.returncode == 0, ended.stdout
    first, second, changes = _figures(ended.stdout)
    assert all(
        waited == paid == landed > 0 for waited, paid, landed, _, _ in (first, second, changes)
    )
    assert (first[3], changes[3]) == ("none yet", "none yet")
    assert second[3] == first[4]
    assert second[4].startswith("batch 2, replay id ")
    in_table = re.search(r"^ +Order__e +(\d+) +(\d+)$", ended.stdout, re.MULTILINE)
    assert in_table is not None, ended.stdout
    assert [int(count) for count in in_table.groups()] == [first[2] + second[2]] * 2


def test_second_demo_at_the_same_time_is_refused_in_one_line(
    repository: Path, tmp_path: Path
) -> None:
    """While one demo is at work in a folder, another one says so and touches nothing."""
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = _demo(repository, tmp_path, timeout_seconds=60)

    assert ended.returncode == 1
    assert ended.stdout == f"error: another `make demo` is at work in {tmp_path}; wait for it\n"
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
