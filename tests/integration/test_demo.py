"""The scripts of `make demo` and `make ui`: printed figures, and what they leave."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import psutil  # type: ignore[import-untyped]
import pytest

from scripts.local_salesforce import free_port
from tests.harness.airflow_runs import wait_until

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
    """Each of three DAG runs lands exactly the events that waited, where the last one ended."""
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
    assert "60 events published" in ended.stdout
    accounted = {
        name: (int(events), int(rows))
        for name, events, rows in re.findall(
            r"^ +(/\S+|in all) +(\d+) +(\d+)(?:  \S.*)?$", ended.stdout, re.MULTILINE
        )
    }
    published, landed = accounted.pop("in all")
    assert published == sum(events for events, _ in accounted.values()) == 100
    assert landed == first[2] + second[2] + changes[2]
    assert accounted["/event/Shipment__e"] == (published - landed, 0)


@pytest.mark.full
@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_sigterm_ends_all_that_the_ui_has_started(repository: Path, tmp_path: Path) -> None:
    """Repeated SIGTERM while Spark works leaves neither emulator nor Airflow nor Spark's driver.

    The demo starts its processes by the same code (`tests/unit/scripts/test_processes.py`).
    """
    log = tmp_path / "log"
    environment = {
        **os.environ,
        "UI_FOLDER": str(tmp_path / "place"),
        "PORT": str(free_port()),
        "EVERY": "0",
    }
    with log.open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "scripts.ui"],
            cwd=repository,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    seen: set[psutil.Process] = set()

    def spark_runs() -> bool:
        assert started.poll() is None, log.read_text()
        seen.update(psutil.Process(started.pid).children(recursive=True))
        return any(
            "SparkSubmit" in _command_line(one) and "land-" in _command_line(one) for one in seen
        )

    try:
        wait_until(lambda: "Ctrl-C stops everything" in log.read_text(), "the UI is up", 200)
        _switch_on(int(environment["PORT"]), "salesforce_orders")
        wait_until(spark_runs, "Spark's driver runs", 200)
    finally:
        while started.poll() is None:
            started.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(1)
    left = [one for one in seen if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    for one in left:
        one.kill()
    assert left == []
    assert started.returncode == 0, log.read_text()
    said = log.read_text()
    assert f"{tmp_path / 'place'}/lake/orders_event_driven/Order__e" in said
    assert "/plugin/salesforce_events (Browse > Salesforce events)" in said


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _switch_on(port: int, dag_id: str) -> None:
    """Unpause a DAG, which starts its first run."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=300) as client:
        token = client.get("/auth/token").json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}

        def switched() -> bool:
            asked = client.patch(
                f"/api/v2/dags/{dag_id}", json={"is_paused": False}, headers=headers
            )
            return asked.is_success

        wait_until(switched, f"{dag_id} is parsed and switched on", 100)


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
