"""Half-open connections: the client receives nothing, and the service keeps them for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.conftest import headers_of, opened
from tests.integration.emulator.managing import ManagedCall, refused
from tests.integration.pubsub.emulated import come_true

Talk = Callable[..., Any]
_QUICK: dict[str, Any] = {"slot_hold_seconds": 0.0, "half_close_seconds": 0.01}


def _org(bus: Emulator) -> str:
    topic = bus.define_event("Order__e", {"Number__c": "Text"})
    bus.define_managed_subscription("Lake", topic, default_replay="EARLIEST")
    bus.publish(topic, [{"Number__c": "1"}])
    return topic


def test_a_half_open_client_keeps_its_slot() -> None:
    """A half-open client keeps its slot until the service gives it up."""
    with Emulator(knobs=Knobs(half_open_seconds=0.5, **_QUICK)) as bus:
        _org(bus)

        async def scenario() -> Any:
            headers = headers_of(bus)
            async with opened(bus, headers) as dead:
                await (await ManagedCall.opened(dead, developer_name="Lake")).take(1)
                await asyncio.to_thread(bus.drop_connections, "half_open")
                [condition] = await asyncio.to_thread(bus.faults)
            # Its sockets are closed now, which the service does not hear.
            async with opened(bus, headers) as other:
                said = await refused(other, developer_name="Lake")
                await asyncio.to_thread(bus.wait_open_streams, 0)
                call = await ManagedCall.opened(other, developer_name="Lake")
                return condition, said, await call.take(1)

        condition, said, _ = asyncio.run(scenario())
        bus.wait_open_streams(0)
        bus.check()
        assert (condition.how, said.code) == ("half_open", "managed.subscription.already.active")
        assert [one.ended for one in bus.subscriptions] == ["CANCELLED", "CANCELLED"]


def test_a_stream_falls_silent_after_so_many_events(talk: Talk) -> None:
    """A half-open fault delivers the ordered events and then nothing, until it is cleared."""
    with Emulator(knobs=Knobs(**_QUICK, keepalive_seconds=0.05)) as bus:
        topic = _org(bus)
        bus.fail_next("Subscribe", how="half_open", after=1)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic)
            await stream.take(1)
            reading = asyncio.create_task(client.refused(stream.read()))
            await come_true(lambda: bool(bus.faults()))
            done, _ = await asyncio.wait([reading], timeout=0.3)
            assert not done
            await asyncio.to_thread(bus.clear_faults)
            return await reading

        assert talk(bus, scenario).status == "UNAVAILABLE"
