"""A publishing task whose process is killed: no loss, and duplicates have the same id."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.ledger_writer import LINES
from tests.integration.hooks.killed_publisher import PublishingTask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

REQUEST = 200
COUNT = LINES + 2 * REQUEST
"""One file of the ledger, and two requests whose events only its last file can hold."""
LAST = COUNT // REQUEST
DEATHS = [
    (steps.EVENTS_SENT, 1, {0}),  # before the first answer
    (steps.EVENTS_ANSWERED, 1, {0}),  # between an answer and the ledger
    (steps.EVENTS_ANSWERED, LAST, {0, LINES}),  # after the last, before the ledger is whole
    (steps.LEDGER_NEXT, 2, {LINES}),
    (steps.LEDGER_WRITTEN, 1, {LINES}),
]
"""Step, its number of times, and possible numbers of events in the ledger after the kill."""


def test_every_step_is_died_at() -> None:
    """Every step of publishing is in `DEATHS`."""
    assert {step for step, _, _ in DEATHS} == set(steps.PUBLISH_STEPS)


@pytest.mark.parametrize(
    ("step", "nth", "may_know"),
    [
        pytest.param(*death, id=f"{death[0]}-{death[1]}", marks=[pytest.mark.full] * (at > 2))
        for at, death in enumerate(DEATHS)
    ],
)
def test_a_killed_publisher_loses_nothing(
    bus: Emulator,
    connect: Callable[..., str],
    tmp_path: Path,
    step: str,
    nth: int,
    may_know: set[int],
) -> None:
    """The next try publishes only events missing from the ledger, under the same ids."""
    name = f"Killed_{step.replace('-', '_')}_{nth}__e"
    bus.define_event(name, {"Order_Number__c": "Text"})
    task = PublishingTask(
        login_url=bus.my_domain_url,
        client_id=bus.org.consumer_key,
        client_secret=bus.org.consumer_secret,
        endpoint=bus.endpoint,
        topic=f"/event/{name}",
        root=str(tmp_path / "staging"),
        count=COUNT,
    )
    task.killed_at(step, nth)
    noted = {line for file in tmp_path.rglob("*.jsonl") for line in file.read_text().splitlines()}
    assert len(noted) in may_know

    tally = task.published()

    assert (tally.before, tally.published) == (len(noted), COUNT - len(noted))
    hook = SfEventsHook(connect(bus.connection()))
    events = hook.fetch(task.topic, "earliest", Bounds(max_events=2 * COUNT, idle_seconds=0.2))
    ids = defaultdict(set)
    for event in events.events:
        ids[event.decode()["Order_Number__c"]].add(event.id)
    assert set(ids) == {f"K-{number}" for number in range(1, COUNT + 1)}
    assert {len(of_record) for of_record in ids.values()} == {1}
    again = Counter(event.id for event in events.events)
    assert set(again.values()) <= {1, 2}
    assert len(again) == COUNT
