"""Two runs at once, and mapped tasks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


def test_of_two_runs_one_lands_and_the_other_gives_way(here: Deployment) -> None:
    """The second of two runs names the lease holder, spends nothing, and is rescheduled.

    It then lands the newer events.
    """
    topic = here.topic("Racing")
    topic.publish(3)
    topic.order("hang")
    first = here.run("racing", topic)
    wait_until(topic.jobs, "the first run has staged its batch")
    topic.publish(2)
    second = here.run("racing", topic)
    second.wait_try("land", 1, "up_for_reschedule")
    assert f"is held by task racing.land of run {first.run_id}" in second.log()
    assert topic.deliveries() == 3
    topic.let_go()
    first.wait("success")
    second.wait("success")
    assert [run.result("land")["batch_number"] for run in (first, second)] == [1, 2]
    assert topic.landed("racing") == topic.published
    assert topic.deliveries() == 5


def test_two_runs_triggered_together_never_land_twice_and_never_nothing(here: Deployment) -> None:
    """Two runs that start at the same moment land every event once between them."""
    topic = here.topic("Together")
    topic.publish(6)
    runs = [here.run("racing", topic) for _ in range(2)]
    for run in runs:
        run.wait("success")
    assert sorted(run.tasks()["land"] for run in runs) in (
        ["skipped", "success"],
        ["success", "success"],  # after it gave way, the other's retry may come within the run
    )
    assert topic.landed("racing") == topic.published
    assert (topic.batch_number("racing"), topic.deliveries()) == (1, 6)


def test_mapped_tasks_keep_to_their_topics_in_any_order(here: Deployment) -> None:
    """Mapped tasks continue at their topics' positions when the list of topics changes.

    The list is reordered, one topic is added, one is removed, and that one is added again.
    """
    red, green, blue, late = (here.topic(name) for name in ("Red", "Green", "Blue", "Late"))
    for topic in (red, green, blue):
        topic.publish(3)
    _mapped(here, red, green, blue)
    for topic in (red, green, blue, late):
        topic.publish(2)
    _mapped(here, blue, late, red)
    assert green.landed("mapped") == green.published[:3]
    _mapped(here, late, green)
    for topic in (red, green, blue, late):
        assert topic.landed("mapped") == topic.published
        assert topic.deliveries() == len(topic.published)


def _mapped(here: Deployment, *topics: Topic) -> Run:
    run = here.airflow.trigger("mapped", {"topics": [topic.name for topic in topics]})
    run.wait("success")
    return run
