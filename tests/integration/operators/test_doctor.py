"""`SfEventsDoctorOperator` and its checks of a worker, with a stand-in for `spark-submit`."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_sfevents.operators.doctor import SfEventsDoctorOperator
from tests.integration.operators.conftest import ORDERS, SECRETS
from tests.unit.submit.test_java import make_java

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.operators.conftest import Task

STAND_IN = """#!/bin/sh
[ -z "$SFEVENTS_TEST_FAILS" ] || { echo "$SFEVENTS_TEST_FAILS" >&2; exit 1; }
while [ $# -gt 0 ]; do
    if [ "$1" = --answer ]; then path="${2#file://}"; fi
    shift
done
printf '{"user": "spark", "error": "%s"}' "$SFEVENTS_TEST_ERROR" > "$path"
"""
"""A `spark-submit` that answers the probe's question without a JVM."""

UNRESOLVED = (
    'Exception in thread "main" java.lang.RuntimeException: '
    "[unresolved dependency: org.example#missing;1.0: not found]"
)


@pytest.fixture
def worker(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task on a worker with Java 17 and a `spark-submit` that needs none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "spark-submit").write_text(STAND_IN)
    (folder / "spark-submit").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", "17.0.15")))
    return task


def run(task: Task, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = task.execute_alone(
        SfEventsDoctorOperator, **{"task_id": "doctor", "fail": False, **arguments}
    )
    return found


def test_a_healthy_worker_has_no_failure(worker: Task, bus: Emulator) -> None:
    """Every line has its place, and no event is requested."""
    streams, delivered = len(bus.subscriptions), bus.deliveries()
    found = run(worker, topics=[ORDERS])
    assert found["failed"] == []
    assert {one["status"] for one in found["findings"]} <= {"ok", "not checked"}
    assert all("task orders.doctor, process" in one["where"] for one in found["findings"])
    named = [one["checked"] for one in found["findings"] if one["status"] == "ok"]
    for name in (f"topic {ORDERS}", "versions", "executor", "staging", "Java", "jars", "Spark"):
        assert name in named
    assert named[-1] == "staging read by Spark"
    assert (len(bus.subscriptions), bus.deliveries()) == (streams, delivered)


def test_a_failed_check_fails_the_task(worker: Task, caplog: pytest.LogCaptureFixture) -> None:
    """The error names all failed checks, and the log has a line for each check."""
    with caplog.at_level(logging.INFO), pytest.raises(AirflowException) as raised:
        run(worker, topics=[SECRETS], fail=True)
    assert str(raised.value).startswith(f"1 check failed: topic {SECRETS}. First: ")
    assert "ok: versions: airflow-provider-sfevents" in caplog.text


def test_without_a_spark_connection_spark_is_not_checked(worker: Task) -> None:
    """The line says how to have it checked."""
    found = run(worker, spark_conn_id=None)
    assert found["failed"] == []
    [line] = [one for one in found["findings"] if one["checked"] == "Spark"]
    assert (line["status"], "spark_conn_id" in line["remedy"]) == ("not checked", True)


@pytest.mark.parametrize(
    ("host", "extra", "arguments", "checked"),
    [
        pytest.param("spark://m:7077", {"deploy-mode": "cluster"}, {"staging_shared": True}, "Spark connection", id="cluster mode"),
        pytest.param("spark://m", {}, {"staging_shared": True}, "Spark connection", id="no master's address"),
        pytest.param("yarn", {}, {}, "staging seen by Spark", id="folder of this machine"),
        pytest.param("local[2]", {"spark-binary": "spark2-submit"}, {}, "spark-submit", id="no spark-submit"),
        pytest.param("local[2]", {}, {"spark_conn_id": "nowhere"}, "Spark connection", id="no connection"),
    ],
)  # fmt: skip
def test_a_spark_that_cannot_be_started(
    worker: Task, host: str, extra: dict[str, str], arguments: dict[str, Any], checked: str
) -> None:
    """The fault's line is the first failed one, and no job is run."""
    worker.connect("spark_default", {"conn_type": "spark", "host": host, "extra": extra})
    found = run(worker, **arguments)
    assert found["failed"][:1] == [checked]
    assert [one["status"] for one in found["findings"] if one["checked"] == "Spark"] in (
        [],
        ["not checked"],
    )


def test_a_master_that_does_not_answer(worker: Task) -> None:
    """The line has the master's address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    worker.connect("spark_default", {"conn_type": "spark", "host": f"spark://127.0.0.1:{port}"})
    assert run(worker, staging_shared=True)["failed"] == ["Spark master"]


def test_a_spark_connect_server_that_does_not_answer(
    worker: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line stands for the server."""
    monkeypatch.setenv("AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS", "0.5")
    server = {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": 1}
    worker.connect("spark_default", server)
    found = run(worker)
    assert found["failed"] == ["Spark"]
    assert "sc://127.0.0.1:1" in found["findings"][-2]["seen"]


@pytest.mark.parametrize(
    ("variable", "said", "checked"),
    [
        pytest.param("FAILS", UNRESOLVED, "jars", id="jar that no repository has"),
        pytest.param("FAILS", "out of memory", "Spark", id="job that fails"),
        pytest.param("ERROR", "Permission denied", "staging read by Spark", id="closed folder"),
        pytest.param(
            "ERROR", 'No FileSystem for scheme \\"s3a\\"', "jars", id="no jar for the store"
        ),
    ],
)
def test_a_spark_that_cannot_read(
    worker: Task, monkeypatch: pytest.MonkeyPatch, variable: str, said: str, checked: str
) -> None:
    """The job runs, and its failure or its answer is the first failed line."""
    monkeypatch.setenv(f"SFEVENTS_TEST_{variable}", said)
    found = run(worker)
    assert found["failed"] == [checked]


@pytest.mark.spark
@pytest.mark.full
def test_a_real_spark(
    task: Task, spark_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real `spark-submit` is healthy; one whose Java cannot start is the first failed line."""
    for name, value in spark_environment.items():
        monkeypatch.setenv(name, value)
    found = run(task)
    assert found["failed"] == [], found["findings"]
    assert [one["checked"] for one in found["findings"] if one["status"] == "ok"][-3:] == [
        "jars",
        "Spark",
        "staging read by Spark",
    ]
    assert run(task, driver_memory="1m")["failed"] == ["Spark"]


def test_a_staging_area_that_cannot_be_written(worker: Task) -> None:
    """A file is where the folder must be; Spark is not started."""
    worker.staging.write_text("in the way")
    found = run(worker)
    assert found["failed"] == ["staging"]


def test_a_store_that_is_not_installed(worker: Task) -> None:
    """The scheme of the URL is unknown."""
    assert run(worker, staging="nowhere://bucket/staging")["failed"] == ["staging"]


def test_executors_that_do_not_share_the_default_folder(
    worker: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default folder under a remote executor is the first fault."""
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    assert run(worker, staging=None)["failed"] == ["executor"]
