"""The command for each kind of cluster, word by word, and settings that are refused first.

The tests need no YARN and no Kubernetes; the commands are those of `docs/how-to/clusters.md`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.staging_access import Job, put_job, staging_root
from airflow_provider_sfevents.operators import spark_submission
from tests.unit.operators.test_arguments import to_spark

BESIDE_PYTHON = str(Path(sys.executable).parent)
JOB = Job(
    application="s3a://lake/staging/_jobs/land-1.py",
    py_files="s3a://lake/staging/_jobs/sfevents-1.zip",
)
OURS = ["--manifest", "s3a://lake/staging/m.json", "--table", "s3a://lake/salesforce"]
YARN = {"queue": "etl", "yarn_resourcemanager_webapp_address": "http://rm:8088"}
KUBERNETES = {"namespace": "etl"}


class Connected:
    """Tasks with the Spark connection of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._environ = monkeypatch
        monkeypatch.setenv("PATH", BESIDE_PYTHON, prepend=":")

    def to(self, host: str, **extra: str) -> None:
        connection = {"conn_type": "spark", "host": host, "extra": extra}
        self._environ.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    def command(self, **arguments: Any) -> list[str]:
        """The command that would be started, from the program's name on."""
        task = to_spark(**arguments)
        submission = spark_submission.plan(task, "file:///mnt/shared", shared=True)
        spark_submission.aim(task, submission, JOB, OURS, 1_000_000)
        with submission.environment():
            command = task._get_hook()._build_spark_submit_command(task.application)
        return [str(word) for word in command]


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Connected:
    # Airflow's provider for Kubernetes has it; no code calls it here.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    return Connected(monkeypatch)


def test_yarn_in_cluster_mode(spark: Connected) -> None:
    """On YARN the job comes from the staging area, and an archive is the environment."""
    spark.to("yarn", **YARN, **{"deploy-mode": "cluster"})
    command = spark.command(
        archives="s3a://lake/env.tar.gz#env",
        conf={"spark.executorEnv.PYSPARK_PYTHON": "./env/bin/python"},
        env_vars={"PYSPARK_PYTHON": "./env/bin/python"},
        yarn_track_via_rm_api=True,
        num_executors=4,
        executor_memory="2g",
    )
    assert command == [
        "spark-submit",
        *("--master", "yarn"),
        *("--conf", "spark.executorEnv.PYSPARK_PYTHON=./env/bin/python"),
        *("--conf", "spark.yarn.submit.waitAppCompletion=false"),
        *("--conf", "spark.yarn.appMasterEnv.PYSPARK_PYTHON=./env/bin/python"),
        *("--py-files", JOB.py_files),
        *("--archives", "s3a://lake/env.tar.gz#env"),
        *("--num-executors", "4"),
        *("--executor-memory", "2g"),
        *("--name", "sfevents"),
        *("--queue", "etl"),
        *("--deploy-mode", "cluster"),
        JOB.application,
        *OURS,
    ]


def test_yarn_in_client_mode_tells_other_machines_nothing_of_this_one(spark: Connected) -> None:
    """Java and Spark of this machine are no settings of YARN's containers."""
    spark.to("yarn", queue="etl")
    command = spark.command(conf={"spark.pyspark.python": "/opt/env/bin/python"})
    assert command == [
        "spark-submit",
        *("--master", "yarn"),
        *("--conf", "spark.log.level=WARN"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
        *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
        *("--conf", "spark.pyspark.python=/opt/env/bin/python"),
        *("--py-files", JOB.py_files),
        *("--name", "sfevents"),
        *("--queue", "etl"),
        JOB.application,
        *OURS,
    ]


def test_kubernetes_in_cluster_mode(spark: Connected) -> None:
    """On Kubernetes the image is the environment, and keys come from a named secret."""
    spark.to("k8s://https://k8s.example:443", **KUBERNETES, **{"deploy-mode": "cluster"})
    secret = "spark.kubernetes.driver.secretKeyRef.AWS_SECRET_ACCESS_KEY"  # a setting's name
    command = spark.command(
        conf={"spark.kubernetes.container.image": "registry/spark-sfevents:1", secret: "lake:key"},
        env_vars={"AWS_REGION": "eu-central-1"},
        track_driver_via_k8s_api=True,
    )
    assert command == [
        "spark-submit",
        *("--master", "k8s://https://k8s.example:443"),
        *("--conf", "spark.kubernetes.container.image=registry/spark-sfevents:1"),
        *("--conf", f"{secret}=lake:key"),
        *("--conf", "spark.kubernetes.driverEnv.AWS_REGION=eu-central-1"),
        *("--conf", "spark.kubernetes.namespace=etl"),
        *("--py-files", JOB.py_files),
        *("--name", "sfevents"),
        *("--deploy-mode", "cluster"),
        *("--conf", "spark.kubernetes.submission.waitAppCompletion=false"),
        JOB.application,
        *OURS,
    ]


def test_the_job_lies_in_the_staging_area(tmp_path: Path) -> None:
    """In cluster mode the driver reads the job and its modules from the staging area."""
    job = put_job(staging_root(f"file://{tmp_path}"), "land")
    assert job.application.startswith(f"file://{tmp_path}/_jobs/land-")
    assert job.py_files.startswith(f"file://{tmp_path}/_jobs/sfevents-")
    for url in (job.application, job.py_files):
        assert Path(url.removeprefix("file://")).stat().st_size > 0


@pytest.mark.parametrize("damage", [b"import os; os.system('id')", b"", b"PK\x03\x04"])
def test_a_job_file_that_was_changed_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    """A changed job file is replaced by this release's, and the log names it."""
    root = staging_root(f"file://{tmp_path}")
    job = put_job(root)
    files = [Path(url.removeprefix("file://")) for url in (job.application, job.py_files)]
    right = [file.read_bytes() for file in files]
    assert put_job(root) == job
    assert caplog.text == ""
    for file in files:
        file.write_bytes(damage)
    assert put_job(root) == job
    assert [file.read_bytes() for file in files] == right
    assert [
        file for file in files if f"{file} was not the file of this release" in caplog.text
    ] == files


@pytest.mark.parametrize(
    ("host", "extra", "arguments", "said"),
    [
        ("yarn", YARN, {}, "yarn_track_via_rm_api=True"),
        ("yarn", {}, {"yarn_track_via_rm_api": True}, "yarn_resourcemanager_webapp_address"),
        (
            "yarn",
            YARN,
            {
                "yarn_track_via_rm_api": True,
                "conf": {"spark.yarn.submit.waitAppCompletion": "true"},
            },
            "waitAppCompletion=false",
        ),
        ("k8s://https://k:443", {}, {"track_driver_via_k8s_api": True}, "namespace"),
    ],
)
def test_refused_before_anything_is_fetched(
    spark: Connected, host: str, extra: dict[str, str], arguments: dict[str, Any], said: str
) -> None:
    """Settings that Airflow would refuse after staging are refused before the fetch."""
    spark.to(host, **extra, **{"deploy-mode": "cluster"})
    with pytest.raises(ConfigurationError, match=said):
        spark_submission.plan(to_spark(**arguments), "file:///mnt/shared", shared=True)


def test_a_local_spark_without_the_jar_of_a_table_is_refused(
    spark: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local Spark without the jar for the table's address is refused before the fetch."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    spark.to("local[2]")
    staging, tables = "file:///mnt/shared", ("s3a://lake/salesforce", None)
    with pytest.raises(ConfigurationError, match=r"no jar for s3a://.*Nothing was fetched\."):
        spark_submission.plan(to_spark(), staging, shared=True, tables=tables)
    task = to_spark(packages="org.apache.hadoop:hadoop-aws:3.4.2")
    spark_submission.plan(task, staging, shared=True, tables=tables)


def test_without_a_client_for_kubernetes(spark: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Kubernetes client the error names the package to install."""
    monkeypatch.delattr(spark_submit, "kube_client")
    spark.to("k8s://https://k:443")
    with pytest.raises(ConfigurationError, match="pip install apache-airflow-providers-cncf-ku"):
        spark_submission.plan(to_spark(), "file:///mnt/shared", shared=True)


def test_secrets_that_would_be_seen_are_warned_of(
    spark: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    """A secret that would be visible is named in a warning, without its value."""
    spark.to("yarn", **YARN, **{"deploy-mode": "cluster"})
    task = to_spark(env_vars={"AWS_SECRET_ACCESS_KEY": "hush"}, durable=False)
    spark_submission.plan(task, "file:///mnt/shared", shared=True)
    assert "env_vars names AWS_SECRET_ACCESS_KEY. At yarn Airflow puts" in caplog.text
    assert "hush" not in caplog.text
