"""Tasks that Airflow's timeout or a user ends: no stream and no job outlives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from tests.airflow.conftest import SOON
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


def test_a_fetch_ends_in_time_to_land(here: Deployment) -> None:
    """A fetch ends after half of a short `execution_timeout`; the rest is for landing."""
    topic = here.topic("TimeoutStream")
    topic.publish(4)
    here.run("waiting_not_long", topic).wait("success")
    assert topic.open_streams() == 0
    assert topic.landed("waiting_not_long") == topic.published
    _goes_on(here, "waiting_not_long", topic)


def test_a_timeout_while_spark_works_ends_the_job(here: Deployment) -> None:
    """A timeout while the job runs leaves no process of it, and the next run lands the batch."""
    topic = here.topic("TimeoutSpark")
    topic.publish(4)
    topic.order("hang")
    here.run("landing_not_long", topic).wait("failed")
    _no_job_left(topic)
    _goes_on(here, "landing_not_long", topic)


def test_marked_failed_in_mid_stream(here: Deployment) -> None:
    """A fetch that is marked failed closes its stream and keeps the received events.

    The next run pays for the new events only.
    """
    topic = here.topic("UserStream")
    topic.publish(4)
    run = here.run("waiting", topic)
    wait_until(lambda: topic.deliveries() == 4, "all is delivered")
    task = run.process("land")
    run.mark("land", "failed")
    _ended(task)
    wait_until(lambda: topic.open_streams() == 0, "the stream is closed")
    _goes_on(here, "waiting", topic)


def test_marked_failed_while_spark_works(here: Deployment) -> None:
    """A task marked failed while its job runs leaves no process of it.

    The next run lands the batch.
    """
    topic = here.topic("UserSpark")
    topic.publish(4)
    topic.order("hang")
    run = here.run("landing", topic)
    wait_until(topic.jobs, "the job runs")
    task = run.process("land")
    run.mark("land", "failed")
    _no_job_left(topic)
    _ended(task)
    assert topic.batch_number("landing") == 0
    _goes_on(here, "landing", topic)


def _no_job_left(topic: Topic) -> None:
    [(pid, _)] = topic.jobs()
    wait_until(lambda: not psutil.pid_exists(pid), "the job has ended")


def _ended(task: psutil.Process) -> None:
    wait_until(lambda: not task.is_running(), "the task's process has ended")


def _goes_on(here: Deployment, dag_id: str, topic: Topic) -> None:
    """The next runs land the four events and two new ones; each was delivered once."""
    topic.publish(2)
    runs = 0
    while topic.landed(dag_id) != topic.published:
        here.land(dag_id, topic, until=SOON)
        runs += 1
        # The four that are staged, then one in each run, since the time `SOON` is past.
        assert runs <= 3, topic.landed(dag_id)
    assert topic.deliveries() == 6
