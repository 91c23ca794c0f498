from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.staging import layout
from tests.dags.conftest import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

EDITED = "sfevents.edited.event.Order__e"


@dataclass
class Story:
    here: Deployment
    mistakes: DagTest
    tries: dict[str, int]
    mapped: DagTest
    edited: str

    @property
    def messages(self) -> list[str]:
        """Messages of the errors that ended tasks, from their logs."""
        return re.findall(r"^\S*AirflowFailException: (.*)$", self.mistakes.log, re.MULTILINE)


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """Each mistake once, with events waiting on the bus."""
    with deploy("mistakes.py") as here:
        here.publish(1, 5)
        org = here.bus.connection()
        here.airflow.connect("wrong_secret", {**org, "password": "not-the-secret"})
        here.airflow.connect("wrong_host", {**org, "host": "https://acme.my.salesforce.invalid"})
        edited = '{"version": 1, "replay_id": ""}'
        here.airflow.set_variable(EDITED, edited)
        mistakes = here.run("mistakes")
        tries = here.tries(mistakes, "mistakes")
        mapped = here.run("mapped")
        yield Story(here, mistakes, tries, mapped, edited)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("unknown_topic", "/event/Oder__e"),
        ("wrong_secret", "The consumer secret is wrong"),
        ("no_spark_connection", "Spark connection 'spark_nowhere' is not defined. Create it"),
        ("edited_position", f"Variable '{EDITED}' does not hold a position"),
    ],
)
def test_what_cannot_work_is_not_tried_again(story: Story, task: str, said: str) -> None:
    """The task fails at its first try, with one message that names the thing and the remedy."""
    assert story.mistakes.tasks[task] == "failed"
    assert story.tries[task] == 1
    assert len([message for message in story.messages if said in message]) == 1, story.mistakes.log


def test_what_may_pass_is_tried_again(story: Story) -> None:
    """A host that does not answer may be back soon; the task's retries are used."""
    assert story.mistakes.tasks["wrong_host"] == "failed"
    assert story.tries["wrong_host"] == 2
    assert "https://acme.my.salesforce.invalid cannot be reached" in story.mistakes.log


def test_a_topic_twice_in_one_mapping(story: Story) -> None:
    """Every mapped task is refused, since one of them would take events from another."""
    assert set(story.mapped.tasks.values()) == {"failed"}, story.mapped.log
    assert len(story.mapped.tasks) == 3
    assert f"expanded over topic '{ORDERS}' more than once" in story.mapped.log


def test_nothing_is_spent_and_nothing_begun(story: Story) -> None:
    """A mistake delivers no event, writes no position and begins no batch."""
    assert story.here.bus.deliveries() == 0
    assert story.here.airflow._query("SELECT key, val FROM variable") == [(EDITED, story.edited)]
    staged = [
        path
        for path in (story.here.airflow.folder / "sfevents").rglob("*")
        if path.is_file() and path.name != layout.AREA
    ]
    assert staged == []


def test_no_message_holds_a_secret(story: Story) -> None:
    """Neither the right secret nor the wrong one is in a log."""
    for secret in (story.here.bus.org.consumer_secret, "not-the-secret"):
        assert secret not in story.mistakes.log
