"""Between a staged batch and `spark-submit`: launcher, environment, arguments, kept jobs."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.hooks.task_thread import Stopping
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.job_options import SparkWork
from airflow_provider_sfevents.submit.deploy_modes import Way

BESIDE_PYTHON = str(Path(sys.executable).parent)


@pytest.fixture(autouse=True)
def no_python_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the Python that tests with a Spark of their own leave in the environment."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.fixture
def java_only(tmp_path: Path) -> str:
    """A PATH with a Java and without `spark-submit`."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("there is no java on PATH to make such a PATH with")
    (tmp_path / "java").symlink_to(java)
    return str(tmp_path)


def plan(path: str, *, shared: bool = False, **way: Any) -> spark_submission.Submission:
    planned = Way(**{"master": "local[2]", "env_vars": {"PATH": path}, **way})
    return spark_submission.plan_submission(
        planned, "spark-submit", "file:///staging", shared=shared
    )


def test_spark_submit_on_the_path_is_taken(java_only: str) -> None:
    """`spark-submit` on the PATH comes before the one of pyspark."""
    path = f"{BESIDE_PYTHON}:{java_only}"
    submission = plan(path)
    assert (submission.binary, "SPARK_HOME" in submission.env) == ("spark-submit", False)


def test_without_a_path_the_installed_pyspark_is_taken(java_only: str) -> None:
    """Without `spark-submit` on the PATH the one of the installed pyspark is used."""
    submission = plan(java_only)
    assert Path(submission.binary).is_file()
    assert submission.env["SPARK_HOME"] == str(Path(submission.binary).parent.parent)
    assert submission.env["PYSPARK_PYTHON"] == sys.executable


def test_this_python_is_not_forced_on_other_machines(java_only: str) -> None:
    """The worker's Python is set for the driver here, and never for executors elsewhere."""
    submission = plan(java_only, master="yarn", shared=True)
    assert "PYSPARK_PYTHON" not in submission.env
    assert submission.env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    theirs = {"spark.pyspark.python": "/opt/env/bin/python"}
    assert submission.conf(theirs, 1)["spark.pyspark.driver.python"] == sys.executable


def test_a_drivers_python_that_was_asked_for_is_taken(java_only: str) -> None:
    """A driver's Python in the environment or the settings is used."""
    asked = {"PATH": java_only, "PYSPARK_DRIVER_PYTHON": "/opt/driver"}
    submission = plan(java_only, master="yarn", shared=True, env_vars=asked)
    assert "PYSPARK_DRIVER_PYTHON" not in submission.env
    theirs = {"spark.pyspark.python": "/a", "spark.pyspark.driver.python": "/b"}
    conf = plan(java_only, master="yarn", shared=True).conf(theirs, 1)
    assert conf["spark.pyspark.driver.python"] == "/b"


def test_cluster_mode_is_left_alone(java_only: str) -> None:
    """In cluster mode no Python of this machine is set, and the log settings stay."""
    submission = plan(java_only, master="yarn", deploy_mode="cluster", durable=False, shared=True)
    assert [name for name in submission.env if name.startswith("PYSPARK")] == []
    assert submission.conf({"a": 1}, None) == {"a": 1}
    assert submission.conf({"a": 1}, 10) == {"a": 1}


def test_where_the_job_lies(java_only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's files are where the driver reads them: staging area or this machine."""
    monkeypatch.setenv("AIRFLOW_CONN_STORE", '{"conn_type": "aws"}')
    client = plan(java_only, master="yarn", shared=True)
    cluster = replace(client, deploy_mode="cluster")
    bucket = "s3://store@lake/staging"
    assert str(client.job_root("file:///staging")) == "file:///staging"
    assert str(client.job_root(bucket)) == str(staging_root(None))
    assert str(cluster.job_root(bucket)) == str(staging_root(bucket))


def test_what_spark_submit_needs_is_in_its_environment_alone(java_only: str) -> None:
    """Variables for spark-submit are set for a block only, and never in `env_vars`."""
    submission = replace(plan(java_only), env={"SPARK_HOME": "/opt/spark", "HOME": "/elsewhere"})
    home = os.environ["HOME"]
    with submission.environment():
        assert (os.environ["SPARK_HOME"], os.environ["HOME"]) == ("/opt/spark", "/elsewhere")
    assert ("SPARK_HOME" in os.environ, os.environ["HOME"]) == (False, home)


def test_a_failing_spark_leaves_no_environment_in_its_frames(java_only: str) -> None:
    """A failed Spark leaves no environment, with its connections, in the error's frames."""

    def submit(env: dict[str, str]) -> None:
        raise AirflowException(f"Cannot execute with {len(env)} variables")

    with pytest.raises(AirflowException) as raised, plan(java_only).environment():
        submit({"AIRFLOW_CONN_ORG": "s3cret"})
    trace, found = raised.value.__traceback__, {}
    while trace is not None:
        found[trace.tb_frame.f_code.co_name] = dict(trace.tb_frame.f_locals)
        trace = trace.tb_next
    assert found["submit"] == {}


def test_a_job_without_the_jar_of_a_store_is_not_retried(java_only: str) -> None:
    """A job that found no jar for a kind of address ends with an error that no retry follows."""
    log = "Error code is: 1.\nsfevents: Not landed: Spark has no jar for s3a:// addresses. Give it"
    with (
        pytest.raises(ConfigurationError, match=r"^Spark has no jar for s3a:// .*hadoop-aws"),
        plan(java_only).environment(),
    ):
        raise AirflowException(f"Cannot execute: spark-submit. {log} ...")


def test_a_users_own_arguments_become_text() -> None:
    """A user's own arguments are converted to text."""
    assert spark_submission.texts(["--days", 3, Path("x")]) == ["--days", "3", "x"]
    assert spark_submission.texts(None) == []


def test_py_files_are_added_to() -> None:
    """The user's own `py_files` come first."""
    assert spark_submission.joined("mine.zip", "ours.zip") == "mine.zip,ours.zip"
    assert (
        spark_submission.joined(None, "ours.zip")
        == spark_submission.joined("", "ours.zip")
        == "ours.zip"
    )


@dataclass
class FakeState:
    """A task's state store."""

    kept: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)


@pytest.mark.parametrize(
    ("of_batch", "job_kept"), [("e-1", "driver-1"), ("e-0", None), (None, None)]
)
def test_a_kept_spark_job_counts_for_its_batch_only(
    of_batch: str | None, job_kept: str | None
) -> None:
    """A kept Spark job of another batch, or of none, is forgotten."""
    state = FakeState({"spark_job_id": "driver-1"})
    if of_batch:
        state.set(spark_submission.BATCH_KEY, of_batch)
    spark_submission.forget_other_jobs(of_try(1, state), "spark_job_id", "e-1", again=False)
    assert state.get("spark_job_id") == job_kept
    assert state.get(spark_submission.BATCH_KEY) == "e-1"


def test_a_batch_that_is_landed_again_gets_a_job_of_its_own() -> None:
    """A rerun does not take the finished job of the first landing for its own."""
    state = FakeState({"spark_job_id": "driver-1"})
    state.set(spark_submission.BATCH_KEY, "e-1")
    spark_submission.forget_other_jobs(of_try(3, state), "spark_job_id", "e-1", again=True)
    assert state.get("spark_job_id") is None


def test_a_job_that_has_ended_is_not_waited_for_again(java_only: str, tmp_path: Path) -> None:
    """A retry runs a job again that ended well and left no receipt."""
    state = FakeState()
    seen: list[dict[str, Any]] = []

    def run_spark(*_: Any) -> None:
        seen.append(dict(state.kept))
        state.kept |= {"spark_job_id": "driver-1", "k8s_driver_status": "Succeeded"}

    task = SimpleNamespace(
        staging=tmp_path.as_uri(),
        external_id_key="spark_job_id",
        application="",
        application_args=None,
        py_files=None,
        conf=None,
        run_spark=run_spark,
    )
    jobs = spark_submission.SubmittedJobs(
        task, plan(java_only, shared=True), of_try(1, state), Stopping()
    )
    for _ in range(2):
        jobs.run(SparkWork(job="land", arguments=[], events=1, key="e-1"))
    assert seen[1] == {spark_submission.BATCH_KEY: "e-1"}


def of_try(number: int, state: FakeState) -> Any:
    return {"task_state_store": state, "ti": SimpleNamespace(try_number=number)}


@pytest.mark.parametrize(
    ("events", "quick"),
    [(10, True), (10_000_000, False), (None, False)],
    ids=["few", "many", "a user's own job"],
)
def test_a_local_job_with_little_to_do_starts_quickly(
    java_only: str, events: int | None, quick: bool
) -> None:
    """A small local job gets settings for a quick start, without changing the user's."""
    submission = plan(java_only, shared=True)
    conf = submission.conf({"spark.log.level": "INFO"}, events)
    assert conf["spark.log.level"] == "INFO"
    assert ("spark.driver.extraJavaOptions" in conf) is quick


def test_a_quick_start_leaves_the_defaults_of_the_file(java_only: str, tmp_path: Path) -> None:
    """Settings in Spark's file of defaults stay as they are: arguments would override them."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.driver.extraJavaOptions -Djavax.net.ssl.trustStore=own\nspark.log.level INFO\n"
    )
    submission = plan(
        java_only, shared=True, env_vars={"PATH": java_only, "SPARK_CONF_DIR": str(tmp_path)}
    )
    conf = submission.conf({}, 10)
    assert {"spark.driver.extraJavaOptions", "spark.log.level"}.isdisjoint(conf)
    assert "spark.sql.codegen.factoryMode" in conf


@pytest.mark.parametrize(
    ("known", "ended"),
    [({}, False), ({"_driver_id": "driver-1"}, True), ({"_kubernetes_driver_pod": "pod"}, True)],
    ids=["not started", "standalone", "Kubernetes"],
)
def test_a_driver_that_a_retry_goes_on_with_is_ended(known: dict[str, str], ended: bool) -> None:
    """A task that is ended ends the driver of an earlier try, for which it started no process."""
    calls: list[None] = []
    hook = SimpleNamespace(_submit_sp=None, **known)
    task: Any = spark_submission.SubmitsToSpark.__new__(spark_submission.SubmitsToSpark)
    task._in_spark = True
    task._spark_task = SimpleNamespace(
        _hook=hook, _backend=SimpleNamespace(on_kill=lambda: calls.append(None))
    )
    assert task._end_process() is ended
    assert len(calls) == ended
