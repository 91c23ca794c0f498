from __future__ import annotations

import json
from contextlib import aclosing
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceededError,
)
from airflow_provider_sfevents.hooks.connection import AUTHS
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator import Emulator
ORDERS = "/event/Order__e"
SHIPMENTS = "/event/Shipment__e"
SOON = Bounds(idle_seconds=0.4)


@pytest.fixture(params=AUTHS)
def any_login(
    request: pytest.FixtureRequest, bus: Emulator, connect: Callable[..., str]
) -> SfEventsHook:
    """A hook for each kind of login."""
    return SfEventsHook(connect(bus.connection(request.param)))


@pytest.fixture
def hook(bus: Emulator, connect: Callable[..., str]) -> SfEventsHook:
    return SfEventsHook(connect(bus.connection()))


def test_each_login_leads_to_the_org(any_login: SfEventsHook) -> None:
    """The API is reached by each kind of login."""
    topic = any_login.get_topic(ORDERS)
    assert (topic.name, topic.can_subscribe) == (ORDERS, True)


@pytest.mark.anyio
async def test_the_client_of_the_connection(hook: SfEventsHook, bus: Emulator) -> None:
    """The hook's asyncio client logs in by the connection, and reads what is published."""
    bus.publish(SHIPMENTS, [{"Order_Number__c": "C-1"}])
    async with hook.client(replay="earliest") as client:
        await client.subscribe(SHIPMENTS)
        assert (await client.receive())["channel"] == SHIPMENTS


def test_topic_and_schema(hook: SfEventsHook, bus: Emulator) -> None:
    """The hook returns a topic, and its schema as JSON."""
    topic = hook.get_topic(ORDERS)
    schema = json.loads(hook.get_schema(topic.schema_id))
    assert topic.schema_id == bus.schema_id("Order__e")
    assert schema["name"] == "Order__e"
    assert "Amount__c" in [field["name"] for field in schema["fields"]]


def test_fetch_keeps_what_came_before_an_error(hook: SfEventsHook, bus: Emulator) -> None:
    """A fetch that ends by an error returns the events before it, and the error."""
    start = bus.publish(ORDERS, [{"Amount__c": 0.0}])[0].hex()
    published = bus.publish(ORDERS, [{"Amount__c": float(n)} for n in range(5)])
    bus.fail_next("Subscribe", error_code="subscription.limit.exceeded", after=3)
    fetched = hook.fetch(ORDERS, start, Bounds(max_events=5, max_seconds=120, idle_seconds=120))
    assert [event.replay_id for event in fetched.events] == [one.hex() for one in published[:3]]
    assert (fetched.result.ended_by, type(fetched.result.error)) == ("error", QuotaExceededError)


def test_fetch_brings_what_came_after(hook: SfEventsHook, bus: Emulator) -> None:
    """A fetch returns the events after a replay id in order, decodable, and closes its stream."""
    ids = [
        replay_id.hex()
        for replay_id in bus.publish(
            ORDERS,
            [{"Order_Number__c": f"A-{number}", "Quantity__c": number} for number in range(5)],
        )
    ]
    fetched = hook.fetch(ORDERS, ids[1], SOON)
    assert [event.replay_id for event in fetched.events] == ids[2:]
    assert [event.decode()["Order_Number__c"] for event in fetched.events] == ["A-2", "A-3", "A-4"]
    assert fetched.result.ended_by == "idle_seconds"
    assert bus.open_streams == 0


def test_fetch_keeps_an_event_of_an_unknown_schema(hook: SfEventsHook, bus: Emulator) -> None:
    """An event of an unknown schema is returned; only decoding it raises an error."""
    start = bus.publish(SHIPMENTS, [{"Order_Number__c": "A-1"}])[0].hex()
    bus.publish_raw(SHIPMENTS, b"?", "AAAAAAAAAAAAAAAAAAAAAA")
    bus.publish(SHIPMENTS, [{"Order_Number__c": "A-2"}])
    unknown, known = hook.fetch(SHIPMENTS, start, SOON).events
    assert known.decode()["Order_Number__c"] == "A-2"
    with pytest.raises(ValueError, match="no schema 'AAAAAAAAAAAAAAAAAAAAAA'"):
        unknown.decode()


@pytest.mark.anyio
async def test_subscribe_brings_events_as_they_come(hook: SfEventsHook, bus: Emulator) -> None:
    """`subscribe` yields events as they come; breaking out of it closes the stream."""
    numbers: list[str] = []
    async with aclosing(hook.subscribe(ORDERS)) as deliveries:
        keepalive = await anext(deliveries)
        assert len(keepalive) == 0
        bus.publish(ORDERS, [{"Order_Number__c": "live-1"}, {"Order_Number__c": "live-2"}])
        async for delivery in deliveries:
            numbers += delivery.ids
            if len(numbers) == 2:
                break
    bus.wait_open_streams(0)
    assert numbers == [event["id"] for event in bus.events(ORDERS, last=2)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("HookBytes", lambda ids: ids),
        ("HookHex", lambda ids: [one.hex() for one in ids]),
        ("HookUpper", lambda ids: [one.hex().upper() for one in ids]),
    ],
)
async def test_a_managed_subscription_keeps_what_is_committed(
    hook: SfEventsHook, bus: Emulator, name: str, given: Any
) -> None:
    """A replay id is committed as bytes or as hex; an invalid one is refused unsent."""
    bus.define_managed_subscription(
        name, ORDERS, default_replay="LATEST", error_recovery_replay="EARLIEST"
    )
    async with hook.managed_subscribe(name, ORDERS) as managed:
        deliveries = managed.deliveries()
        assert len(await anext(deliveries)) == 0
        ids = bus.publish(ORDERS, [{"Order_Number__c": "m-1"}, {"Order_Number__c": "m-2"}])
        came: list[bytes] = []
        while len(came) < 2:
            came += (await anext(deliveries)).replay_ids
        assert came == ids
        assert await managed.commit("ff" * 10) != ""
        with pytest.raises(ConfigurationError, match="'zz' is no replay id"):
            await managed.commit("zz")
        for place in given(ids):
            assert await managed.commit(place) == ""
    found = {one.developer_name: one.committed for one in bus.managed_subscriptions}
    assert found[name] == ids[-1].hex()


def test_publish_says_what_became_of_each(hook: SfEventsHook, bus: Emulator) -> None:
    """Published dates, numbers and texts arrive unchanged, with a result for each record."""
    results = hook.publish(
        ORDERS,
        [
            {"Order_Number__c": "P-1", "Amount__c": 12.5, "Delivery_Date__c": date(2026, 11, 30)},
            {"Order_Number__c": "P-2"},
        ],
    )
    events = bus.events(ORDERS, last=2)
    assert [(result.error, result.event_id) for result in results] == [
        ("", event["id"]) for event in events
    ]
    assert [event["fields"]["Order_Number__c"] for event in events] == ["P-1", "P-2"]
    assert events[0]["fields"]["Amount__c"] == 12.5


def test_a_login_is_shared(hook: SfEventsHook, bus: Emulator) -> None:
    """All hooks and calls of a process share one login."""
    hook.get_topic(ORDERS)
    before = [call.rpc for call in bus.requests].count("token")
    for _ in range(3):
        SfEventsHook(hook.conn_id).get_topic(ORDERS)
    assert [call.rpc for call in bus.requests].count("token") == before
    bus.expire_tokens()
    hook.get_topic(ORDERS)
    assert [call.rpc for call in bus.requests].count("token") == before + 1
