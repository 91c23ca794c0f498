"""Repeated, reordered and resent events; large ones; streams without keepalives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, EmulatorError, Knobs
from airflow_provider_sfevents.emulator.knobs import MEGABYTE
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.integration.emulator.event_calls import published

Talk = Callable[..., Any]
QUICK = Knobs(half_close_seconds=0.01)


def _ids(events: list[Any]) -> list[bytes]:
    return [event.replay_id for event in events]


@pytest.mark.parametrize("credit", [1, 100])
def test_events_come_twice(talk: Talk, credit: int) -> None:
    """Repeated events use credit and are counted; later events come once."""
    with Emulator(knobs=QUICK) as bus:
        topic, ids = published(bus, 5)
        bus.repeat_next(2)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic, credit)
            events: list[Any] = []
            while len(events) < 7:
                response = await stream.read()
                events += response.events
                if response.pending_num_requested == 0:
                    await stream.ask(credit)
            return events

        events = talk(bus, scenario)
        assert _ids(events) == [ids[0], ids[0], ids[1], ids[1], *ids[2:]]
        assert events[0] == events[1]
        assert bus.deliveries(topic) == bus.subscriptions[0].delivered == 7
        assert bus.subscriptions[0].max_outstanding <= credit
        assert bus.faults() == ()


def test_events_come_out_of_order(talk: Talk) -> None:
    """The ordered events come in reverse, whatever the response size; others in order."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01, response_events=2)) as bus:
        topic, ids = published(bus, 6)
        bus.reorder_next(3)
        assert [(fault.how, fault.times) for fault in bus.faults()] == [("reorder", 3)]

        async def scenario(client: Any) -> Any:
            return await (await client.subscribe(topic)).take(6)

        assert _ids(talk(bus, scenario)) == [ids[2], ids[1], ids[0], *ids[3:]]
        assert bus.deliveries(topic) == 6


def test_a_reconnect_gets_some_again(talk: Talk) -> None:
    """Only the next stream that starts at a replay id gets earlier events again."""
    with Emulator(knobs=QUICK) as bus:
        topic, ids = published(bus, 6)
        bus.resend_on_reconnect(2)

        async def scenario(client: Any) -> Any:
            first = await (await client.subscribe(topic)).take(6)
            again = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=ids[3])
            later = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=ids[3])
            return _ids(first), _ids(await again.take(4)), _ids(await later.take(2))

        assert talk(bus, scenario) == (ids, ids[2:], ids[4:])


@pytest.mark.parametrize(
    ("limit", "count"), [(3 * MEGABYTE, 2), (2 * MEGABYTE, 1), (6 * MEGABYTE, 5)]
)
def test_large_events_fill_responses_to_their_limit(talk: Talk, limit: int, count: int) -> None:
    """Large events fill a response up to `max_response_bytes`."""
    from grpc import aio

    from tests.integration.emulator.conftest import Client, headers_of

    knobs = Knobs(half_close_seconds=0.01, max_response_bytes=limit, response_events=count)
    with Emulator(knobs=knobs) as bus:
        topic, ids = published(bus, count, size=MEGABYTE - 100)

        async def scenario() -> Any:
            options = [("grpc.max_receive_message_length", 16 * MEGABYTE)]
            async with aio.insecure_channel(bus.endpoint, options=options) as channel:
                response = await (await Client(channel, headers_of(bus)).subscribe(topic)).read()
                return response.ByteSize(), _ids(response.events)

        size, came = asyncio.run(scenario())
        assert came == ids
        assert limit >= size > count * (MEGABYTE - 200)
        bus.check()


def test_a_response_beyond_the_clients_own_limit_ends_its_stream(talk: Talk) -> None:
    """A response above a client's own 4 MB limit ends its stream."""
    knobs = Knobs(half_close_seconds=0.01, max_response_bytes=8 * MEGABYTE, response_events=6)
    with Emulator(knobs=knobs) as bus:
        topic, _ = published(bus, 6, size=MEGABYTE - 100)

        async def scenario(client: Any) -> Any:
            return await client.refused((await client.subscribe(topic)).read())

        refused = talk(bus, scenario)
        assert refused.status == "RESOURCE_EXHAUSTED"
        assert "larger than max" in refused.message


def test_keepalives_pause(talk: Talk) -> None:
    """Paused keepalives do not stop events; one comes at once on resume."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.05)) as bus:
        topic, _ = published(bus, 1)
        bus.pause_keepalives()

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic)
            await stream.take(1)
            reading = asyncio.create_task(stream.read())
            done, _ = await asyncio.wait([reading], timeout=0.2)
            bus.publish(topic, [{}])
            event = await reading
            bus.resume_keepalives()
            return done, len(event.events), len((await stream.read()).events)

        assert talk(bus, scenario) == (set(), 1, 0)


def test_mistakes_are_named() -> None:
    """Invalid numbers are refused."""
    with Emulator() as bus:
        for verb in (bus.repeat_next, bus.resend_on_reconnect):
            with pytest.raises(EmulatorError, match="at least one event"):
                verb(0)
        with pytest.raises(EmulatorError, match="two events at least"):
            bus.reorder_next(1)
