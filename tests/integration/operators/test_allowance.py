"""`min_allowance`: no event is requested while the org has fewer deliveries left."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import ConfigurationError, QuotaExceededError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions.seen_allowance import SeenAllowance, allowance_key
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from tests.integration.operators.conftest import ORDERS
from tests.unit.positions.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.operators.conftest import Task

MOST = 10


@pytest.fixture
def small() -> Iterator[Emulator]:
    """An org with three events and ten deliveries a day."""
    knobs = Knobs(delivery_allocation=MOST, half_close_seconds=0.01, keepalive_seconds=0.3)
    with Emulator(sample=True, knobs=knobs) as bus:
        bus.publish(ORDERS, [{"Order_Number__c": "A-1"}] * 3)
        yield bus
        bus.check()


@pytest.fixture
def org(small: Emulator, task: Task) -> Emulator:
    task.connect("sfevents_default", small.connection())
    return small


KINDS = [
    pytest.param(SfEventsFetchOperator, {}, id="fetch"),
    pytest.param(SfEventsToSparkOperator, {}, id="to spark"),
    pytest.param(SfEventsSensor, {"poke_interval": 0.05, "timeout": 5}, id="sensor"),
    pytest.param(SfEventsSensor, {"deferrable": True, "timeout": 5}, id="deferred sensor"),
]


@pytest.mark.parametrize(("kind", "arguments"), KINDS)
def test_too_few_deliveries_are_left(
    org: Emulator, task: Task, kind: type[Any], arguments: dict[str, Any]
) -> None:
    """With too few deliveries left the task fails for good, and nothing is delivered."""
    SfEventsHook().fetch(ORDERS, "earliest", Bounds(max_events=1, max_seconds=120))
    with pytest.raises(AirflowFailException, match=r"has 9 of 10 deliveries left.*allowance=10"):
        task.execute(kind, min_allowance=MOST, **arguments)
    assert org.deliveries() == 1


@pytest.mark.parametrize(("kind", "arguments"), KINDS)
def test_an_allowance_that_cannot_be_read(
    org: Emulator, task: Task, kind: type[Any], arguments: dict[str, Any]
) -> None:
    """If the allowance cannot be read, no event is requested."""
    org.fail_next("rest", status="RESOURCE_EXHAUSTED")
    with pytest.raises(
        AirflowException, match=r"cannot be read, so no events were requested \(min_allowance=1\)"
    ):
        task.execute(kind, min_allowance=1, **arguments)
    assert org.deliveries() == 0


def test_enough_are_left(org: Emulator, task: Task) -> None:
    """With enough deliveries left the task runs."""
    assert task.execute(SfEventsFetchOperator, min_allowance=MOST)["events"] == 3
    assert org.deliveries() == 3


@pytest.mark.parametrize("least", [MOST - 1, MOST])
def test_what_is_left_is_kept_for_the_page(
    org: Emulator, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    """The allowance that was read is kept, also if it is too small for the task."""
    from airflow.sdk.execution_time import task_runner

    SfEventsHook().fetch(ORDERS, "earliest", Bounds(max_events=1, max_seconds=120))
    airflow = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", airflow, raising=False)
    refused = pytest.raises(QuotaExceededError) if least == MOST else nullcontext()
    with refused:
        asyncio.run(SfEventsHook().require_allowance(ORDERS, least))
    kept = SeenAllowance.from_json(airflow.variables[allowance_key(org.org.org_id)])
    assert kept is not None
    assert (kept.most, kept.left) == (MOST, MOST - 1)


def test_a_staged_batch_needs_no_deliveries(org: Emulator, task: Task) -> None:
    """A staged batch is returned with any number of deliveries left."""
    first = task.execute(SfEventsFetchOperator)
    again = task.execute(SfEventsFetchOperator, min_allowance=MOST)
    assert (again["batch_id"], again["reused"]) == (first["batch_id"], True)
    waited = task.execute(SfEventsSensor, min_allowance=MOST, min_events=3, timeout=5)
    assert waited["events"] == 3
    assert [call.rpc for call in org.requests].count("rest") == 0


@pytest.mark.parametrize("kind", [SfEventsFetchOperator, SfEventsToSparkOperator, SfEventsSensor])
def test_what_is_no_number(task: Task, kind: type[Any]) -> None:
    """An allowance that is no number is refused at parse time."""
    with pytest.raises(ConfigurationError, match="min_allowance='many'"):
        task.prepare(kind, min_allowance="many")
