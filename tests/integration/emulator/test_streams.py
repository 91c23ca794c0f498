"""Refusals, contents and ends of streams over a real socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}
QUICK = Knobs(half_close_seconds=0.01)


def _published(bus: Emulator, count: int, size: int = 0) -> str:
    topic = bus.define_event("Order__e", ORDER)
    bus.publish(topic, [{"Number__c": f"{n}{'x' * size}"} for n in range(count)])
    return topic


@pytest.mark.parametrize(
    ("first", "code", "status"),
    [
        pytest.param(
            {"preset": pb.CUSTOM},
            "subscription.fetch.replayid.validation.failed",
            "INVALID_ARGUMENT",
            id="no id",
        ),
        pytest.param(
            {"preset": pb.CUSTOM, "replay_id": b"x" * 10},
            "subscription.fetch.replayid.corrupted",
            "INVALID_ARGUMENT",
            id="malformed id",
        ),
        pytest.param(
            {"preset": pb.CUSTOM, "replay_id": (2**40).to_bytes(8, "big") + b"\0\0"},
            "subscription.fetch.replayid.corrupted",
            "INVALID_ARGUMENT",
            id="never given out",
        ),
        pytest.param(
            {"num": 0},
            "subscription.fetch.requested.events.invalid",
            "INVALID_ARGUMENT",
            id="nothing asked",
        ),
        pytest.param(
            {"num": -5},
            "subscription.fetch.requested.events.invalid",
            "INVALID_ARGUMENT",
            id="less than nothing",
        ),
        pytest.param({"topic": ""}, "topic.validation.empty", "INVALID_ARGUMENT", id="blank topic"),
        pytest.param(
            {"topic": "/event/order__e"},
            "topic.meta.permission",
            "PERMISSION_DENIED",
            id="wrong case",
        ),
        pytest.param(
            {"topic": "/event/Secret__e"},
            "subscription.topic.cannot.subscribe",
            "PERMISSION_DENIED",
            id="no read",
        ),
    ],
)
def test_first_requests_that_are_refused(
    talk: Talk, first: dict[str, Any], code: str, status: str
) -> None:
    """Each wrong first request has its code, the trailers and the rpc id."""
    with Emulator() as bus:
        topic = _published(bus, 1)
        bus.define_event("Secret__e", ORDER, can_subscribe=False)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(**{"topic": topic, **first})
            return await client.refused(stream.read())

        refused = talk(bus, scenario)
        assert (refused.code, refused.status) == (code, status)
        assert refused.trailers["type"] == "Subscribe"
        assert refused.message.endswith(f" rpcId: {refused.trailers['rpc-id']}")
        assert bus.open_streams == 0


def test_aged_out_id_is_refused(talk: Talk) -> None:
    """After 73 hours an id is refused, and EARLIEST returns younger events only."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", ORDER)
        [old] = bus.publish(topic, [{"Number__c": "old"}])
        bus.clock.advance(hours=73)
        [young] = bus.publish(topic, [{"Number__c": "young"}])

        async def scenario(client: Any) -> tuple[Any, Any]:
            stream = await client.subscribe(topic, 1, preset=pb.CUSTOM, replay_id=old)
            refused = await client.refused(stream.read())
            return refused, (await (await client.subscribe(topic, 10)).read()).events

        refused, events = talk(bus, scenario)
        assert refused.code == "subscription.fetch.replayid.corrupted"
        assert [event.replay_id for event in events] == [young]


def test_a_connection_takes_so_many_rpcs(talk: Talk) -> None:
    """An RPC above the connection's limit waits in the client."""
    with Emulator(knobs=Knobs(max_streams_per_connection=2, half_close_seconds=0.01)) as bus:
        topic = _published(bus, 1)

        async def scenario(client: Any) -> None:
            first, _ = [await client.subscribe(topic) for _ in range(2)]
            await first.take(1)
            third = asyncio.ensure_future(client.subscribe(topic))
            await asyncio.to_thread(bus.wait_open_streams, 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.get_topic(topic), 0.2)
            assert (bus.connections, len(bus.subscriptions)) == (1, 2)
            await first.end()
            await (await third).take(1)
            assert len(bus.subscriptions) == 3

        talk(bus, scenario)


def test_idle_stream_is_closed(talk: Talk) -> None:
    """An idle stream is closed with OK, or by knob UNAVAILABLE, despite waiting events."""
    with Emulator(knobs=Knobs(idle_close_seconds=0.2)) as bus:
        topic = _published(bus, 10)

        async def scenario(client: Any) -> tuple[Any, str]:
            stream = await client.subscribe(topic, 1)
            await stream.take(1)
            return await stream.read(), (await stream.call.code()).name

        assert talk(bus, scenario) == (aio.EOF, "OK")

    with Emulator(knobs=Knobs(idle_close_seconds=0.2, idle_close_status="UNAVAILABLE")) as bus:
        topic = _published(bus, 10)

        async def refused(client: Any) -> Any:
            stream = await client.subscribe(topic, 1)
            await stream.take(1)
            return await client.refused(stream.read())

        assert talk(bus, refused).status == "UNAVAILABLE"
        assert bus.subscriptions[0].ended == "UNAVAILABLE"


def test_half_close_ends_with_ok_and_no_more_events(talk: Talk) -> None:
    """After a half-close no event is sent, and the stream ends 0.3 s later."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)

        async def scenario(client: Any) -> tuple[Any, str, float]:
            stream = await client.subscribe(topic, 10, preset=pb.LATEST)
            bus.wait_open_streams(1)
            began = time.monotonic()
            await stream.call.done_writing()
            bus_ended = await stream.read()
            return bus_ended, (await stream.call.code()).name, time.monotonic() - began

        response, status, took = talk(bus, scenario)
        assert (response, status) == (aio.EOF, "OK")
        assert took >= 0.3


def test_a_client_that_goes_away_is_noticed(talk: Talk) -> None:
    """A cancelled call ends its stream, and the call log states it."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)

        async def scenario(client: Any) -> None:
            stream = await client.subscribe(topic, 10)
            await stream.ask(1)
            stream.call.cancel()

        talk(bus, scenario)
        bus.wait_open_streams(0)
        assert {seen.ended for seen in bus.subscriptions} <= {"CANCELLED"}


def test_streams_left_in_the_middle_do_no_harm(talk: Talk) -> None:
    """Thirty vanished clients leave neither an open stream nor a defect."""
    with Emulator(knobs=QUICK) as bus:
        topic = _published(bus, 2000, size=2000)

        async def scenario(client: Any) -> None:
            streams = [await client.subscribe(topic) for _ in range(30)]
            for turn, stream in enumerate(streams):
                for _ in range(turn % 5):
                    await stream.ask(len((await stream.read()).events))
                if turn % 2:
                    stream.call.cancel()

        talk(bus, scenario)
        bus.wait_open_streams(0)
        bus.check()
        assert {seen.ended for seen in bus.subscriptions} == {"CANCELLED"}


def test_several_subscribers_each_get_everything(talk: Talk) -> None:
    """Two streams both get each event, and both count as deliveries."""
    with Emulator(knobs=QUICK) as bus:
        topic = _published(bus, 20)

        async def scenario(client: Any) -> None:
            one, two = await client.subscribe(topic), await client.subscribe(topic)
            await one.take(20)
            await two.take(20)

        talk(bus, scenario)
        assert bus.deliveries(topic) == 40
        assert [seen.delivered for seen in bus.subscriptions] == [20, 20]


def test_old_events_keep_their_schema(talk: Talk) -> None:
    """Earlier events keep their schema id, and both ids resolve."""
    with Emulator(knobs=QUICK) as bus:
        topic = _published(bus, 1)
        old = bus.schema_id(topic)
        new = bus.evolve(topic, {"City__c": "Text"})
        bus.publish(topic, [{"Number__c": "2", "City__c": "Porto"}])

        async def scenario(client: Any) -> tuple[list[str], list[str]]:
            events = await (await client.subscribe(topic)).take(2)
            return [e.event.schema_id for e in events], [
                (await client.get_schema(one)).schema_id for one in (old, new)
            ]

        assert talk(bus, scenario) == ([old, new], [old, new])


def test_change_events_arrive_with_bitmaps(talk: Talk) -> None:
    """A change event is on its topic and on /data/ChangeEvents, with a UUID."""
    fields = {"Name": "Text", "BillingAddress": "Address", "LastModifiedDate": "DateTime"}
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_entity("Account", fields)
        replay_id = bus.change(
            "Account", "UPDATE", ["001000000000001AAA"], {"BillingAddress": {"Street": "x"}}
        )

        async def scenario(client: Any) -> list[Any]:
            return [
                (await (await client.subscribe(name)).take(1))[0]
                for name in (topic, "/data/ChangeEvents")
            ]

        events = talk(bus, scenario)
        assert [event.replay_id for event in events] == [replay_id] * 2
        assert len(events[0].event.id) == 36
        [seen] = bus.events(topic)
        assert seen["fields"]["ChangeEventHeader"]["changedFields"] == [
            "LastModifiedDate",
            "BillingAddress.Street",
        ]

    with Emulator(knobs=Knobs(change_event_ids=False, half_close_seconds=0.01)) as bus:
        topic = bus.define_entity("Account", fields)
        bus.change("Account", "DELETE", "001000000000001AAA")
        assert talk(bus, scenario)[0].event.id == ""


def test_poison_is_delivered_as_it_is(talk: Talk) -> None:
    """Undecodable payloads and unknown schema ids reach the client unchanged."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", ORDER)
        bus.publish_raw(topic, b"\xff\xff", ids=["bad"])
        bus.publish_raw(topic, [b"x", b"y"], "no-such-schema")

        async def scenario(client: Any) -> list[tuple[bytes, str]]:
            events = await (await client.subscribe(topic)).take(3)
            return [(event.event.payload, event.event.schema_id) for event in events]

        assert talk(bus, scenario) == [
            (b"\xff\xff", bus.schema_id(topic)),
            (b"x", "no-such-schema"),
            (b"y", "no-such-schema"),
        ]
        assert ["undecodable" in event for event in bus.events(topic)] == [True] * 3


def test_delivery_allocation(talk: Talk) -> None:
    """A used-up allocation ends the stream; a day later it is available again."""
    with Emulator(
        knobs=Knobs(delivery_allocation=30, token_idle_hours=100, half_close_seconds=0.01)
    ) as bus:
        topic = _published(bus, 50)

        async def first(client: Any) -> tuple[int, Any]:
            stream = await client.subscribe(topic)
            return len(await stream.take(30)), await client.refused(stream.read())

        count, refused = talk(bus, first)
        assert (count, refused.code, refused.status) == (
            30,
            "subscription.limit.exceeded",
            "RESOURCE_EXHAUSTED",
        )
        bus.clock.advance(hours=25)

        async def second(client: Any) -> int:
            return len(await (await client.subscribe(topic)).take(5))

        assert talk(bus, second) >= 5


def test_round_trip_and_spread_pace_a_stream(talk: Talk) -> None:
    """Early top-ups are about twice as fast as stop-and-wait."""
    with Emulator(
        knobs=Knobs(round_trip_seconds=0.05, spread_seconds=0.05, half_close_seconds=0.01)
    ) as bus:
        topic = _published(bus, 600)

        async def topping_up(client: Any) -> float:
            began = time.monotonic()
            stream, got = await client.subscribe(topic), 0
            while got < 600:
                count = len((await stream.read()).events)
                got += count
                await stream.ask(count)
            return time.monotonic() - began

        async def stop_and_wait(client: Any) -> float:
            began = time.monotonic()
            stream = await client.subscribe(topic)
            for batch in range(6):
                await stream.take(100)
                if batch < 5:
                    await stream.ask(100)
            return time.monotonic() - began

        fast, slow = talk(bus, topping_up), talk(bus, stop_and_wait)
        # At least 6 x 50 ms of events; 6 x (50 + 50) ms without overlap. A busy machine adds to
        # both.
        assert fast >= 0.3
        assert slow >= 0.59
        assert fast < 0.9 * slow
