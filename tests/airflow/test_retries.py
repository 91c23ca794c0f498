"""Airflow's own retries, after a death of the job, the task's process or its supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.airflow.conftest import SOON
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


def test_a_retry_reuses_what_the_first_try_staged(here: Deployment) -> None:
    """Each retry after a failed job lands the batch that is staged, without a delivery."""
    topic = here.topic("Failing")
    topic.publish(5)
    topic.order("fail", "fail")
    run = here.land("retrying", topic)
    assert run.tries("land") == 3
    assert run.result("land")["reused"] is True
    assert len({batch for _, batch in topic.jobs()}) == 1
    assert topic.landed("retrying") == topic.published
    assert topic.deliveries() == 5


def test_a_retry_gives_way_to_a_first_try_that_still_runs(here: Deployment) -> None:
    """A retry gives way to a first try that outlived its supervisor, and spends nothing.

    It names the lease holder and is rescheduled.
    """
    topic = here.topic("Unwatched")
    topic.publish(5)
    with here.holding("spark-next") as held:
        run = here.run("racing", topic)
        wait_until(held, "the first try has staged the batch")
        first = run.kill_supervisor("land")
        run.wait_try("land", 2, "up_for_reschedule", "failed")
        assert f"is held by task racing.land of run {run.run_id}, map index -1, try 1" in run.log()
        assert f"process {first.pid} on" in run.log()
        assert first.is_running()
        assert (topic.jobs(), topic.deliveries()) == ([], 5)
    run.wait("success")
    wait_until(lambda: not first.is_running(), "the first try's process has ended")
    assert topic.landed("racing") == topic.published
    assert (topic.batch_number("racing"), topic.deliveries()) == (1, 5)


def test_a_task_killed_in_mid_stream_goes_on_after_what_it_had_closed(here: Deployment) -> None:
    """A task killed before its manifest leaves no stream, and the next runs land all events."""
    topic = here.topic("Midstream")
    topic.publish(5)
    run = here.run("waiting", topic)
    wait_until(lambda: topic.deliveries() == 5, "all is delivered")
    run.kill_task("land")
    run.wait("failed")
    wait_until(lambda: topic.open_streams() == 0, "the dead task's stream is closed")
    assert topic.batch_number("waiting") == 0
    topic.publish(2)
    runs = 0
    while topic.landed("waiting") != topic.published:
        here.land("waiting", topic, until=SOON)
        runs += 1
        # First the staged events; then one event, because `SOON` has passed; then the rest.
        assert runs <= 3, topic.landed("waiting")
    assert topic.deliveries() <= 5 + 7  # what was in no closed file is delivered again
