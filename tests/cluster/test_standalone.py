"""Landing on a Spark standalone cluster: executors without Airflow on two workers."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException

from tests.cluster.in_process import InProcess
from tests.cluster.machines import ExecutorPython
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import Deployment
    from tests.cluster.machines import Cluster

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
]

EVENTS = 45_000
"""Three staged files, so that a job has that many tasks."""


def test_a_worker_killed_in_mid_job_and_its_batch_landed_once(
    cluster: Cluster, here: Deployment
) -> None:
    """A job whose worker is killed continues on the other one, and its rows are the events."""
    here.connect_spark(cluster.master_url)
    here.spark(cluster.python)
    here.publish(EVENTS)
    cluster.python.hold(after=1)

    run = here.airflow.start("dags", "test", "shared", here.next_date())
    held = wait_until(cluster.python.held, "a task is at work", 120)
    cluster.worker_of(held[0]).kill()
    cluster.python.let_go()
    log, _ = run.communicate(timeout=480)

    assert run.returncode == 0, log
    assert len(cluster.running()) == 1
    assert (here.position("shared") or {})["events_total"] == EVENTS
    assert here.landed() == here.expected()
    assert "Lost executor" in log
    assert here.bus.deliveries("/event/Order__e") == EVENTS


@pytest.mark.soak
def test_without_workers_the_log_says_so_and_with_them_it_lands(
    cluster: Cluster, here: Deployment
) -> None:
    """Without a worker the log says so; with the first worker the batch lands.

    Its executors have neither Airflow nor gRPC nor this package.
    """
    python = cluster.python
    for name in ("airflow", "grpc", "airflow_provider_sfevents"):
        assert f"No module named '{name}'" in python.said(f"import {name}")
    for worker in cluster.running():
        worker.kill()
    before = python.tasks()
    here.connect_spark(cluster.master_url)
    here.spark(python, **{"spark.starvation.timeout": "1s"})
    here.publish(20)

    run = here.airflow.start("dags", "test", "shared", here.next_date())
    assert run.stdout is not None
    waiting = next(line for line in run.stdout if "has not accepted any resources" in line)
    assert "ensure that workers are registered" in waiting
    cluster.start_worker()
    log, _ = run.communicate(timeout=480)

    assert run.returncode == 0, log
    assert here.landed() == here.expected()
    assert python.tasks() > before


def on_one_disk(here: Deployment) -> dict[str, Any]:
    """Arguments: what all machines here see."""
    return {
        "staging": f"file://{here.staging}",
        "staging_shared": True,
        "table": str(here.lake),
    }


def test_executors_without_what_decoding_needs_are_one_line(
    cluster: Cluster,
    here: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Executors without a needed package fail with one line, and the position stays.

    The line names the package and the Python that lacks it.
    """
    bare = ExecutorPython.make(tmp_path / "bare", wheels=("pyarrow", "numpy"))
    task = InProcess(
        here=here,
        monkeypatch=monkeypatch,
        arguments={
            **on_one_disk(here),
            "conf": {"spark.pyspark.python": bare.binary},
        },
    )
    here.publish(5)
    with pytest.raises(AirflowException) as raised:
        task.land(cluster.master_url)
    [line] = [one for one in str(raised.value).splitlines() if "Not landed" in one]
    assert bare.binary in line
    assert "has no fastavro" in line
    assert "Traceback" not in str(raised.value)
    assert list(here.lake.rglob("*.parquet")) == []
    assert [json.loads(text)["batch_number"] for text in task.positions.values()] == [0]


def test_executors_in_an_environment_that_travels_with_the_job(
    cluster: Cluster,
    here: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Executors decode with the Python and packages of an archive that travels with the job."""
    assert "No module named 'pyruhvro'" in cluster.python.said("import pyruhvro")
    # Packed as in docs/how-to/clusters.md, with links to local copies of the two largest wheels.
    made = ExecutorPython.make(tmp_path / "made", wheels=("pyarrow", "numpy"), copies=True)
    made.copy("fastavro", "pyruhvro")
    archive = tmp_path / "env.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(made.folder, arcname=".")
    task = InProcess(
        here=here,
        monkeypatch=monkeypatch,
        arguments={
            **on_one_disk(here),
            "archives": f"{archive}#env",
            "conf": {"spark.pyspark.python": "./env/bin/python"},
            "total_executor_cores": 1,
        },
    )
    here.publish(5)

    task.land(cluster.master_url)

    assert here.landed() == here.expected()
    assert made.tasks()
    assert list(cluster.folder.glob("work-*/*/*/env/pyvenv.cfg"))
