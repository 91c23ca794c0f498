"""Timeouts of the client: for a keepalive, for a half-closed stream, for a first replay id."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from tests.integration.pubsub.emulated import (
    LONG,
    TOPIC,
    Received,
    come_true,
    publish,
    running,
)
from tests.integration.pubsub.fetching import mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from tests.integration.pubsub.conftest import ScriptedBus, SeenStream

pytestmark = pytest.mark.anyio


async def test_a_stream_without_keepalives_is_replaced() -> None:
    """A stream that is silent for too long is replaced by one that delivers."""
    quick = Timeouts(silence_seconds=0.2)
    async with running(keepalive_seconds=60, timeouts=quick) as (bus, client):
        published, received = publish(bus, 5), Received()
        bounds = Bounds(max_events=10, max_seconds=120, idle_seconds=120)
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received))
        await come_true(lambda: len(bus.subscriptions) >= 3)
        published += publish(bus, 5)
        result = await task
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (result.losses >= 2, bus.deliveries()) == (True, 10)
        assert {one.start for one in bus.subscriptions[1:]} == {published[4].hex()}
        bus.wait_open_streams(0)


async def test_a_stream_with_keepalives_is_alive() -> None:
    """A stream with keepalives stays, and they cause no request."""
    quick = Timeouts(silence_seconds=0.3)
    async with running(keepalive_seconds=0.05, timeouts=quick) as (bus, client):
        bounds = Bounds(max_seconds=0.9, idle_seconds=120)
        result = await client.fetch(TOPIC, LATEST, bounds, Received())
        assert (result.ended_by, result.losses, len(bus.subscriptions)) == ("max_seconds", 0, 1)
        assert bus.subscriptions[0].keepalives > 5
        assert [request.num_requested for request in bus.subscriptions[0].requests] == [100]


async def test_a_stream_the_service_does_not_end_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A half-closed stream that the service leaves open is cancelled after its timeout."""
    quick = Timeouts(rest_seconds=0.2)
    async with running(half_close_seconds=60, timeouts=quick) as (bus, client):
        published, received = publish(bus, 5), Received()
        with caplog.at_level(logging.WARNING):
            result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=5, **LONG), received)
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert "cancelling it" in caplog.text
        bus.wait_open_streams(0)
        assert bus.subscriptions[0].ended == "CANCELLED"


@pytest.mark.parametrize("start", ["latest", "earliest"])
async def test_nothing_learned_can_be_seen(start: str) -> None:
    """Without event and keepalive the result has no replay id."""
    async with running(keepalive_seconds=60) as (bus, client):
        bounds = Bounds(max_seconds=0.3, idle_seconds=0.1, learn_seconds=280)
        result = await client.fetch(TOPIC, ReplayPoint(start), bounds, Received())
        assert (result.ended_by, result.events) == ("max_seconds", 0)
        assert (result.last_replay_id, result.latest_replay_id) == (b"", b"")
        bus.wait_open_streams(0)


async def test_a_stop_made_in_another_loop_fails(bus: ScriptedBus, client: PubSubClient) -> None:
    """A stop event of another loop is refused, because it could never end the batch."""
    stop = asyncio.Event()

    async def bind() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.01)

    await asyncio.to_thread(lambda: asyncio.run(bind()))
    async with asyncio.timeout(100):
        with pytest.raises(RuntimeError, match="different event loop"):
            await client.fetch(TOPIC, EARLIEST, Bounds(**LONG), Received(), stop=stop)
    assert bus.streams == []


async def test_a_slow_caller_holds_the_service_back(bus: ScriptedBus, client: PubSubClient) -> None:
    """While a delivery is staged, only a few responses are read ahead, so memory stays bounded.

    How many depends on gRPC's window, which grows with the time that an answer takes.
    """
    seen: list[int] = []

    async def heavy(stream: SeenStream) -> AsyncIterator[Any]:
        while await stream.more():
            yield stream.deliver([stream.delivered], payload=b"x" * 1_000_000)

    async def receive(delivery: Delivery) -> None:
        while not seen:
            before = bus.streams[0].delivered
            await asyncio.sleep(0.3)
            if bus.streams[0].delivered == before:
                seen.append(before)

    bus.scripts = [heavy]
    result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=100, **LONG), receive)
    assert result.events == 100
    assert seen[0] < 50


async def test_replay_ids_are_only_ever_handed_back(bus: ScriptedBus, client: PubSubClient) -> None:
    """The next stream starts after the last replay id received, even if it is not the highest."""
    ids = [b"\xff" * 16, b"\x01", b"\x80\x00\x7f"]

    async def odd(stream: SeenStream) -> AsyncIterator[Any]:
        message = stream.deliver(range(3))
        for event, replay_id in zip(message.events, ids, strict=True):
            event.replay_id = replay_id
        yield message
        await stream.fail("UNAVAILABLE")

    async def last(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([7])
        await stream.closed()

    bus.scripts, received = [odd, last], Received()
    await client.fetch(TOPIC, EARLIEST, Bounds(max_events=4, **LONG), received)
    assert received.replay_ids[:3] == ids
    assert mark(received.replay_ids[3]) == 7
    assert bus.streams[1].start == "80007f"
