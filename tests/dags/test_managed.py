from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.conftest import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(600)]


@dataclass
class Story:
    here: Deployment
    published: tuple[list[str], list[str]]
    runs: tuple[DagTest, DagTest]

    def result(self, run: int) -> dict[str, Any]:
        return dict(self.here.airflow.xcom("managed", self.runs[run].run_id, "land"))


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """Events, a run, more events, a run; a slot is held for a while after each client."""
    with deploy("managed.py", slot_hold_seconds=2.0, commit_response_seconds=0.1) as here:
        here.bus.define_managed_subscription(
            "Orders", ORDERS, default_replay="EARLIEST", error_recovery_replay="EARLIEST"
        )
        first = here.publish(1, 5)
        one = here.run("managed")
        second = here.publish(6, 3)
        two = here.run("managed")
        yield Story(here, (first, second), (one, two))


def test_sensor_and_operator_take_turns_on_the_slot(story: Story) -> None:
    """The operator waits until the service releases the sensor's slot, and takes all events."""
    for run in story.runs:
        assert run.tasks == {"wait": "success", "land": "success"}, run.log
    results = [story.result(run) for run in (0, 1)]
    assert [(one["events"], one["batch_number"], one["reused"]) for one in results] == [
        (5, 1, False),
        (3, 2, False),
    ]


def test_salesforce_keeps_the_end_of_the_last_batch(story: Story) -> None:
    """The record of epoch and batch number is ours, in the Variable."""
    [config] = story.here.bus.managed_subscriptions
    assert config.committed == story.published[1][-1]
    position = story.here.position("managed")
    assert position is not None
    assert (position["batch_number"], position["replay_id"]) == (2, config.committed)


def test_what_the_sensor_heard_is_delivered_once_more(story: Story) -> None:
    """An event that the sensor received is delivered once more, and the result counts it.

    The sensor's files are no batch yet, so nothing is committed to Salesforce.
    """
    assert story.here.bus.deliveries() == (1 + 5) + (1 + 3)
    assert [story.result(run)["extra_deliveries"] for run in (0, 1)] == [{"staged_before": 1}] * 2
