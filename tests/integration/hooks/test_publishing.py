"""Publishing by the hook, inside a user's own task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator import Emulator

ORDERS = "/event/Order__e"


@pytest.fixture
def hook(bus: Emulator, connect: Callable[..., str]) -> SfEventsHook:
    return SfEventsHook(connect(bus.connection()))


def test_ids_are_the_callers(hook: SfEventsHook, bus: Emulator) -> None:
    """The caller's ids are used, so that a call of unknown outcome can be repeated."""
    start = bus.publish(ORDERS, [{"Amount__c": 0.0}])[0].hex()
    records = [{"Amount__c": 1.0}, {"Amount__c": 2.0}]
    hook.publish(ORDERS, records, ids=["a", "b"])
    results = hook.publish(ORDERS, records, ids=["a", "b"])
    assert [(one.number, one.event_id, one.error) for one in results] == [
        (1, "a", ""),
        (2, "b", ""),
    ]
    fetched = hook.fetch(ORDERS, start, Bounds(max_events=4))
    assert [event.id for event in fetched.events] == ["a", "b", "a", "b"]


@pytest.mark.anyio
async def test_a_stream_of_results(hook: SfEventsHook, bus: Emulator) -> None:
    """`publish_stream` yields a result for each record, with an error for one that does not fit."""
    records = [{"Amount__c": float(number)} for number in range(300)]
    results = [one async for one in hook.publish_stream(ORDERS, iter(records))]
    assert sorted(one.number for one in results) == list(range(1, 301))
    assert all(one.replay_id for one in results)
    with pytest.raises(ConfigurationError, match="record 2: Amount__c is 'much'"):
        [one async for one in hook.publish_stream(ORDERS, [records[0], {"Amount__c": "much"}])]
