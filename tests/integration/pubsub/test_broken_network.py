"""Broken networks: each event once and in order, paid for once, and no stream left open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.rpc_errors import is_transient
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.replay_point import EARLIEST
from tests.integration.pubsub.emulated import LONG, TOPIC, Received, come_true, publish, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

pytestmark = pytest.mark.anyio

# A dead line is noticed within 0.6 s instead of 40 s.
PINGS = Timeouts(ping_every_seconds=0.3, ping_timeout_seconds=0.3)

BREAKS: dict[str, Callable[[Emulator], None]] = {
    "TCP reset": lambda bus: bus.drop_connections("reset"),
    "GOAWAY": lambda bus: bus.drop_connections("goaway"),
    "RST_STREAM": lambda bus: bus.drop_connections("rst_stream"),
    "polite end": lambda bus: bus.drop_connections("end"),
    "restart": lambda bus: bus.restart(),
    "away": lambda bus: bus.away(0.3),
    "session ended": lambda bus: bus.expire_tokens(in_stream=True),
}


async def break_off(bus: Emulator, how: Callable[[Emulator], None]) -> None:
    """Return when the emulator sees the end of the stream; it counts events sent before."""
    number = len(bus.subscriptions) - 1
    await asyncio.to_thread(how, bus)
    await come_true(lambda: not bus.subscriptions[number].open)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=[pytest.mark.full] if how in {"restart", "session ended"} else [])
        for how in BREAKS
    ],
)
async def test_a_stream_that_breaks(how: str) -> None:
    """The next stream starts after the last event, and each event is paid for once."""
    async with running(chance=0.5) as (bus, client):
        published, received = publish(bus, 30), Received()
        bounds = Bounds(max_events=90, **LONG)
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received))
        for part in (30, 60):
            await received.wait_for(part)
            await break_off(bus, BREAKS[how])
            published += publish(bus, 30, first=part)
        result = await task
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (result.losses, len(bus.subscriptions), bus.deliveries()) == (2, 3, 90)
        assert [one.start for one in bus.subscriptions] == [
            "earliest",
            published[29].hex(),
            published[59].hex(),
        ]
        assert [one.requests[0].num_requested for one in bus.subscriptions] == [90, 60, 30]
        await asyncio.to_thread(bus.wait_open_streams, 0)


@pytest.mark.parametrize(
    "error",
    [
        "INTERNAL_ERROR",
        *(
            pytest.param(error, marks=pytest.mark.full)
            for error in ("REFUSED_STREAM", "CANCEL", "ENHANCE_YOUR_CALM")
        ),
    ],
)
async def test_every_kind_of_reset_stream(error: str) -> None:
    """A stream that was reset is replaced, whatever HTTP/2 gives as the reason."""
    async with running(rst_stream_error=error) as (bus, client):
        published, received = publish(bus, 20), Received()
        bounds = Bounds(max_events=40, **LONG)
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received))
        await received.wait_for(20)
        await break_off(bus, BREAKS["RST_STREAM"])
        published += publish(bus, 20, first=20)
        result = await task
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (result.losses, bus.deliveries()) == (1, 40)


async def test_a_reset_behind_a_burst() -> None:
    """Events that gRPC drops unread at a reset are delivered again, and none is missed."""
    async with running() as (bus, client):
        published, received = publish(bus, 100), Received()
        bus.fail_next("Subscribe", how="rst_stream", after=20, times=3)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=100, **LONG), received)
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (result.losses, result.deliveries) == (3, 100)
        assert 100 <= bus.deliveries() <= 160


async def test_what_came_before_a_reset_is_not_paid_for_twice() -> None:
    """Events are read ahead while the caller stages, so a reset meanwhile loses none of them."""
    async with running() as (bus, client):
        published, received = publish(bus, 90), Received()

        async def receive(delivery: Delivery) -> None:
            if not received.replay_ids:
                await come_true(lambda: not bus.subscriptions[0].open)
                published.extend(publish(bus, 10, first=90))
            await received(delivery)

        bus.fail_next("Subscribe", how="rst_stream", after_seconds=0.4)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=100, **LONG), receive)
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (result.losses, bus.deliveries()) == (1, 100)


async def test_a_connection_that_dies_without_a_word() -> None:
    """Pings notice a half-open connection long before a keepalive is overdue."""
    async with running(timeouts=PINGS, chance=0.5) as (bus, client):
        published, received = publish(bus, 10), Received()
        bounds = Bounds(max_events=20, **LONG)
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received))
        await received.wait_for(10)
        await asyncio.to_thread(bus.freeze, 1.2)
        result_before = len(bus.subscriptions)
        await come_true(lambda: len(bus.subscriptions) > result_before)
        published += publish(bus, 10, first=10)
        result = await task
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert result.losses >= 1
        assert {one.start for one in bus.subscriptions[1:]} == {published[9].hex()}
        assert max(one.max_outstanding for one in bus.subscriptions) <= 20
        await asyncio.to_thread(bus.wait_open_streams, 0)


async def test_a_line_that_stays_dead() -> None:
    """A connection that stays dead ends the batch with its events and a retryable error."""
    async with running(timeouts=PINGS, chance=0.5) as (bus, client):
        published, received = publish(bus, 10), Received()
        bounds = Bounds(max_events=20, max_seconds=1.2, idle_seconds=120)
        async with asyncio.timeout(100):
            task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received))
            await received.wait_for(10)
            await asyncio.to_thread(bus.freeze)
            result = await task
        assert (result.ended_by, received.replay_ids) == ("lost", published)
        assert result.error is not None
        assert is_transient(result.error)
        assert result.last_replay_id == published[-1]
        await asyncio.to_thread(bus.thaw)


async def test_a_slow_line() -> None:
    """A connection that delivers few bytes is not replaced, and nothing is requested twice."""
    async with running() as (bus, client):
        published, received = publish(bus, 60), Received()
        bus.trickle("Subscribe", bytes_per_second=15_000)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=60, **LONG), received)
        bus.trickle("Subscribe", bytes_per_second=None)
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (result.losses, len(bus.subscriptions), bus.deliveries()) == (0, 1, 60)


async def test_a_stop_while_the_service_is_away() -> None:
    """A stopped batch ends at once, even while it waits for a service that is away."""
    async with running(chance=1.0) as (bus, client):
        published, received, stop = publish(bus, 10), Received(), asyncio.Event()
        bounds = Bounds(max_events=20, **LONG)
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received, stop=stop))
        await received.wait_for(10)
        await asyncio.to_thread(bus.away)
        await asyncio.wait((task,), timeout=0.3)
        stop.set()
        async with asyncio.timeout(100):
            result = await task
        assert (result.ended_by, received.replay_ids) == ("stopped", published)
        await asyncio.to_thread(bus.back)


async def test_events_that_come_twice() -> None:
    """Repeated events are handed over and counted as deliveries; bound and credit still hold."""
    async with running() as (bus, client):
        published, received = publish(bus, 100), Received()
        bus.repeat_next(10)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=80, **LONG), received)
        twice = [replay_id for replay_id in published[:10] for _ in range(2)]
        assert (result.ended_by, result.events) == ("max_events", 80)
        assert received.replay_ids == [*twice, *published[10:70]]
        assert (result.last_replay_id, bus.deliveries()) == (published[69], 80)
        assert [one.max_outstanding for one in bus.subscriptions] == [80]


async def test_events_in_another_order() -> None:
    """Events are handed over in the order of arrival."""
    async with running(response_events=10) as (bus, client):
        published, received = publish(bus, 50), Received()
        bus.reorder_next(5)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=50, **LONG), received)
        assert received.replay_ids == [*reversed(published[:5]), *published[5:]]
        assert (result.ended_by, bus.deliveries()) == ("max_events", 50)
        assert bus.subscriptions[0].max_outstanding <= 100


async def test_events_sent_again_after_a_reconnect() -> None:
    """Events repeated after a reconnect are handed over and counted, within the bound."""
    async with running() as (bus, client):
        published, received = publish(bus, 40), Received()
        bus.fail_next("Subscribe", status="UNAVAILABLE", after=20)
        bus.resend_on_reconnect(5)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=45, **LONG), received)
        assert (result.ended_by, result.events) == ("max_events", 45)
        assert received.replay_ids == [*published[:20], *published[15:40]]
        assert bus.deliveries() == 45
