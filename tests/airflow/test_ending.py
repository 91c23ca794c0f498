"""Tasks that Airflow's timeout or a user ends: no stream and no job outlives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.airflow.conftest import SOON
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

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
