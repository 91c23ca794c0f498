"""Resumable Spark jobs: in cluster mode the driver outlives the task.

Airflow keeps the driver's id for the next try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "on_cluster"


def test_a_retry_goes_on_with_the_driver_of_its_batch(here: Deployment) -> None:
    """A task that is killed while its driver works is retried without a second driver."""
    topic = here.topic("Reconnect")
    topic.publish(3)
    topic.order("hang")
    run = here.run(DAG, topic)
    wait_until(
        lambda: "Polling driver" in run.log(), "the driver works, and Airflow has kept its id"
    )
    run.kill_task("land")
    wait_until(lambda: "Reconnecting to existing job" in run.log(), "the next try waits for it")
    topic.let_go()
    run.wait("success")
    assert run.tries("land") == 2
    assert len(topic.jobs()) == len(topic.landings()) == 1
    assert topic.landed(DAG) == topic.published
    assert topic.deliveries() == 3


def test_a_driver_kept_for_one_batch_does_not_count_for_another(here: Deployment) -> None:
    """A retry submits a new driver if another run has landed the batch of the first try."""
    topic = here.topic("OtherBatch")
    topic.publish(3)
    topic.order("fail", "fail", "hang")
    staged = here.run(DAG, topic)
    staged.wait("failed")
    run = here.run(DAG, topic)
    wait_until(lambda: "Polling driver" in run.log(), "its driver works on the staged batch")
    run.kill_task("land")
    staged.clear("land")
    staged.wait("success")
    topic.let_go()
    topic.publish(2)
    run.wait("success")
    assert (run.tries("land"), run.result("land")["batch_number"]) == (2, 2)
    assert [batch.rpartition("-")[2] for _, batch in topic.jobs()] == ["1", "1", "1", "1", "2"]
    assert topic.landed(DAG) == topic.published
    assert topic.deliveries() == 5
