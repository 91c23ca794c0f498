from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

COMMITTING = ("asset", "xcom", "own", "commit")


@dataclass
class Story:
    here: Deployment
    published: tuple[list[str], list[str]]
    runs: tuple[DagTest, DagTest]

    def result(self, run: int, task: str) -> dict[str, Any]:
        return dict(self.here.airflow.xcom("stores", self.runs[run].run_id, task))


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """Events, a run, more events, a run."""
    with deploy("stores.py") as here:
        here.set(TEST_ORG=here.bus.org.org_id)
        first = here.publish(1, 5)
        one = here.run("stores")
        second = here.publish(6, 3)
        two = here.run("stores")
        yield Story(here, (first, second), (one, two))


@pytest.mark.parametrize("task", COMMITTING)
def test_each_store_carries_the_position_to_the_next_run(story: Story, task: str) -> None:
    """Whatever keeps the position, each run takes what came since, once."""
    for run in story.runs:
        assert run.tasks[task] == "success", run.log
    events = [
        (story.result(run, task)["events"], story.result(run, task)["batch_number"])
        for run in (0, 1)
    ]
    assert events == [(5, 1), (3, 2)]


def test_no_event_is_delivered_twice(story: Story) -> None:
    """Four consumers, eight events: each delivered to each once."""
    assert story.here.bus.deliveries() == 4 * 8


def test_nothing_is_kept_where_it_was_not_asked_for(story: Story) -> None:
    """No Variable is written when another store was chosen."""
    assert story.here.airflow._query("SELECT key FROM variable") == []


def test_an_own_store_holds_the_record(story: Story) -> None:
    """The user's store got one text under one key, and it names the last event."""
    [kept] = (story.here.folder / "own").iterdir()
    position = json.loads(kept.read_text())
    assert kept.name == "sfevents.by_own.event.Order__e"
    assert (position["batch_number"], position["replay_id"]) == (2, story.published[1][-1])


def test_outlet_assets_are_told_what_landed(story: Story) -> None:
    """An asset event's `extra` is the result, for DAGs that are scheduled by the asset."""
    assert story.here.asset_extras("orders_landed") == [
        story.result(0, "asset"),
        story.result(1, "asset"),
    ]
