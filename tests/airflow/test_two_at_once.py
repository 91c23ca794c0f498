"""Two runs at once, and mapped tasks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


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
        rows = [len(topic.published)] if topic is late else [3, 2]
        assert _told(here, "mapped", topic) == rows


def test_two_dags_tell_of_the_one_table_that_they_write(here: Deployment) -> None:
    """The table's asset has an event for each batch of each DAG, with a topic from a template."""
    topic = here.topic("Shared_table")
    topic.publish(2)
    here.land("landing", topic)
    topic.publish(1)
    for dag in ("landing", "retrying"):
        here.land(dag, topic)
    assert (_told(here, "landing", topic), _told(here, "retrying", topic)) == ([2, 1], [3])


def _told(here: Deployment, consumer: str, topic: Topic) -> list[int]:
    """Rows that events of the stand-in's table tell of, oldest first."""
    extras = here.airflow.home.asset_extras("stand-in")
    of = (consumer, topic.name)
    return [one["rows"] for one in extras if (one.get("consumer"), one.get("topic")) == of]


def _mapped(here: Deployment, *topics: Topic) -> Run:
    run = here.airflow.trigger("mapped", {"topics": [topic.name for topic in topics]})
    run.wait("success")
    return run
