"""A sensor before the operator: events end the wait and are the first part of the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.airflow.watches import begun, landed_once, place_kept, subscriptions
from tests.harness.airflow_runs import FINISHED, wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]

MODES = ("poking", "rescheduling", "deferring")
WAITS = {"poking": "running", "rescheduling": "up_for_reschedule", "deferring": "deferred"}
"""The sensor's state while it waits."""


Started = dict[str, tuple["Topic", "Run"]]
"""A topic and a run that waits for it, by mode."""


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def woken(here: Deployment) -> Started:
    """In each mode: a run waits, and then five events come."""
    started = _start(here, "{}", publish=0)
    for mode, (topic, run) in started.items():
        run.wait_try("wait", 1, WAITS[mode])
        begun(topic, mode)
        topic.publish(5)
    return started


@pytest.fixture(scope="module")
def soft(here: Deployment) -> Started:
    """In each mode: a run waits with `soft_fail`, and nothing comes."""
    return _start(here, "{}_soft", publish=0)


@pytest.fixture(scope="module")
def halfway(here: Deployment) -> Started:
    """In each mode: a run waits for three events, and two have come."""
    return _start(here, "{}_for_three", publish=2)


def _start(here: Deployment, dag: str, publish: int) -> Started:
    """In each mode a run, side by side."""
    started = {}
    for mode in MODES:
        topic = here.topic(f"{dag.format('Mode')}_{mode}")
        if publish:
            topic.publish(publish)
        started[mode] = topic, here.run(dag.format(mode), topic)
    return started


def test_events_wake_the_sensor_and_land(woken: Started, mode: str) -> None:
    """The sensor succeeds with the first events, and the operator lands them and later ones."""
    topic, run = woken[mode]
    assert run.wait("success") == {"wait": "success", "land": "success"}
    waited = run.result("wait")
    batch_id = f"{topic.position(mode)['epoch']}-1"
    assert waited == {**waited, "batch_id": batch_id, "batch_number": 1, "staged": True}
    assert 1 <= waited["events"] <= 5
    landed_once(topic, mode)


def test_a_wait_that_ends_with_nothing_is_skipped_softly(soft: Started, mode: str) -> None:
    """With `soft_fail`, a timeout skips the sensor and its operator, and no position moves."""
    topic, run = soft[mode]
    assert run.wait("success") == {"wait": "skipped", "land": "skipped"}
    assert topic.batch_number(f"{mode}_soft") == 0
    assert topic.deliveries() == 0
    wait_until(lambda: topic.open_streams() == 0, "the stream is closed")


def test_what_a_wait_got_before_its_timeout_is_for_the_next(
    here: Deployment, halfway: Started, mode: str
) -> None:
    """Events of a wait that timed out count for the next run, and none is delivered twice."""
    topic, failed = halfway[mode]
    dag_id = f"{mode}_for_three"
    assert failed.wait("failed") == {"wait": "failed", "land": "upstream_failed"}
    assert failed.tries("wait") == 1
    assert (topic.batch_number(dag_id), topic.deliveries()) == (0, 2)
    topic.publish(1)
    run = here.land(dag_id, topic)
    assert run.result("wait")["events"] == 3
    landed_once(topic, dag_id)


def test_from_latest_nothing_falls_between_sensor_and_operator(here: Deployment) -> None:
    """From `latest`, every event after the sensor's subscription lands, and no earlier one.

    The proof begins at `latest` with a sensor in the worker.
    """
    topic = here.topic("Latest_deferring")
    dag_id = "deferring_latest"
    topic.publish(2)
    run = here.run(dag_id, topic)
    wait_until(topic.open_streams, "the sensor listens")
    for _ in range(3):
        topic.publish(1)
    run.wait("success")
    assert topic.landed(dag_id) == topic.published[2:]
    assert topic.deliveries() == 3


def test_two_runs_that_wait_for_the_same(here: Deployment) -> None:
    """Two runs that wait for the same topic share a subscription, and each event lands once.

    A run that finds the other at work waits for the next events.
    """
    topic = here.topic("Awaited")
    runs = [here.run("deferring", topic) for _ in range(2)]
    for run in runs:
        run.wait_try("wait", 1, "deferred")
        place_kept(topic, "deferring")
    subscriptions(topic, 1)
    topic.publish(3)
    wait_until(lambda: topic.batch_number("deferring") == 1, "the first batch is committed")
    wait_until(lambda: all(_ended_or_listens(run, topic) for run in runs), "all is quiet")
    if any(run.state() not in FINISHED for run in runs):
        topic.publish(1)
    for run in runs:
        run.wait("success")
    landed_once(topic, "deferring")


def _ended_or_listens(run: Run, topic: Topic) -> bool:
    wait = run.task("wait")
    waits = wait is not None and wait.state == "deferred" and topic.open_streams() == 1
    return run.state() in FINISHED or waits


def test_mapped_topics_wait_each_on_its_own(here: Deployment) -> None:
    """Two of three mapped topics land their events; the third is skipped with its operator."""
    busy, quiet, late = (here.topic(name) for name in ("Busy", "Quiet", "Late_one"))
    busy.publish(3)
    names = [topic.name for topic in (busy, quiet, late)]
    run = here.airflow.trigger("waiting_mapped", {"topics": names})
    wait_until(lambda: (one := run.task("each.wait", 2)) and one.state == "deferred", "it waits")
    late.publish(2)
    tasks = run.wait("success")
    ends = ("success", "skipped", "success")
    for number, end in enumerate(ends):
        assert {tasks[f"each.wait[{number}]"], tasks[f"each.land[{number}]"]} == {end}
    for topic in (busy, quiet, late):
        landed_once(topic, "waiting_mapped")
