"""Spark under Airflow's scheduler: a JVM that ends with its task.

The proof has a JVM that outlives its task, and `test_retries` such a job under the scheduler.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pyarrow.dataset as ds
import pytest

from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
]

DAG = "with_spark"


def test_marked_failed_while_the_jvm_runs(here: Deployment) -> None:
    """A task marked failed while Spark runs leaves no JVM and moves nothing.

    The next run lands the batch.
    """
    topic = here.topic("Jvm")
    topic.publish(20)
    run = here.run(DAG, topic)
    jvm = _jvm(run)
    run.mark("land", "failed")
    wait_until(lambda: not jvm.is_running(), "the JVM has ended")
    assert topic.batch_number(DAG) == 0
    here.land(DAG, topic)
    _landed_once(here, topic)


def _jvm(run: Run) -> psutil.Process:
    """The JVM of the running task's Spark job."""
    task = run.process("land")

    def found() -> psutil.Process | None:
        for child in task.children(recursive=True):
            with suppress(psutil.Error):  # gone meanwhile, as the Java that only tells its version
                if any("SparkSubmit" in argument for argument in child.cmdline()):
                    return child
        return None

    jvm: psutil.Process = wait_until(found, "Spark's JVM runs")
    return jvm


def _landed_once(here: Deployment, topic: Topic) -> None:
    table = ds.dataset(here.folder / "lake" / topic.short, partitioning="hive").to_table()
    assert sorted(table["event_id"].to_pylist()) == sorted(topic.published)
    assert topic.deliveries() == len(topic.published)
