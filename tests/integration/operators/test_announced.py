"""A task that was told of events takes what is pending; it logs in once, and subscribes once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator
from tests.integration.operators.conftest import ORDERS, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR = 3600.0


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """An org of the test's own, so that no earlier test has logged in."""
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.01)) as bus:
        bus.publish(ORDERS, [{"Order_Number__c": f"A-{number}"} for number in range(5)])
        yield bus
        bus.check()


@pytest.mark.timeout(240)
def test_a_task_that_a_watcher_started_does_not_wait(task: Task) -> None:
    """The fetch of an announced batch ends at once, although `idle_seconds` is an hour."""
    task.announced = [{"topic": ORDERS, "consumer": "orders", "batch_id": "", "events": 1}]
    result = task.execute(SfEventsFetchOperator, idle_seconds=HOUR, max_seconds=2 * HOUR)
    assert (result["events"], result["ended_by"]) == (5, "idle_seconds")


def test_a_task_logs_in_once_and_makes_each_call_once(task: Task, bus: Emulator) -> None:
    """A task has one client, which logs in, looks up the topic, subscribes and gets the schema."""
    task.execute(SfEventsFetchOperator)
    calls = Counter(call.rpc for call in bus.requests)
    assert calls == {"token": 1, "GetTopic": 1, "Subscribe": 1, "GetSchema": 1}
