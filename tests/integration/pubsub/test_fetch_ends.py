"""Bounded batch that is full beforehand, stopped, cancelled, or ended by an error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ReplayIdRefusedError, StagingError
from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST
from tests.integration.pubsub.fetching import LONG, TOPIC, Received, a_few, endless, fetch, mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from tests.integration.pubsub.conftest import ScriptedBus, SeenStream

pytestmark = pytest.mark.anyio


async def test_a_batch_that_is_full_already_asks_for_nothing(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A batch that is full by its earlier parts opens no stream."""
    result = await client.fetch(
        TOPIC, EARLIEST, Bounds(max_events=10), Received(), StagedProgress(events=10, bytes=1)
    )
    assert (result.ended_by, result.events, bus.streams) == ("max_events", 0, [])


async def test_earlier_parts_take_their_share_of_the_bound(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A batch that continues after 60 of 100 events takes 40."""
    bus.scripts = [endless]
    result = await client.fetch(
        TOPIC, EARLIEST, Bounds(max_events=100), Received(), StagedProgress(events=60, bytes=600)
    )
    assert (result.ended_by, result.events) == ("max_events", 40)


async def test_more_than_asked_for_is_not_handed_over(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """`max_events` holds even if the service delivers more, and the surplus is kept."""

    async def generous(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver(range(8))
        await stream.closed()

    bus.scripts, received = [generous], Received()
    result = await fetch(client, received, max_events=5)

    assert (result.events, result.deliveries, result.beyond_bound) == (5, 8, 0)
    assert sum(len(delivery) for delivery in result.beyond) == 3
    assert received.numbers == [0, 1, 2, 3, 4]
    assert mark(result.last_replay_id) == mark(result.latest_replay_id) == 4


async def test_stop_ends_a_batch(bus: ScriptedBus, client: PubSubClient) -> None:
    """The stop event ends a batch at once, with the events that came."""
    bus.scripts = [a_few]
    stop = asyncio.Event()

    async def receive(delivery: Delivery) -> None:
        stop.set()

    result = await client.fetch(
        TOPIC, EARLIEST, Bounds(max_seconds=LONG, idle_seconds=LONG), receive, stop=stop
    )
    assert (result.ended_by, result.events, bus.open_streams) == ("stopped", 3, 0)


async def test_stop_wakes_a_batch_that_listens(bus: ScriptedBus, client: PubSubClient) -> None:
    """A stop during a silence ends the batch at once."""

    async def quiet(stream: SeenStream) -> AsyncIterator[Any]:
        stop.set()
        await stream.closed()
        yield stream.deliver([])

    stop = asyncio.Event()
    bus.scripts = [quiet]
    async with asyncio.timeout(100):
        result = await client.fetch(
            TOPIC, LATEST, Bounds(max_seconds=LONG, idle_seconds=LONG), Received(), stop=stop
        )
    assert result.ended_by == "stopped"


async def test_a_cancelled_batch_leaves_no_stream(bus: ScriptedBus, client: PubSubClient) -> None:
    """A cancelled batch leaves no stream that the org pays for."""
    bus.scripts = [a_few]
    reached = asyncio.Event()

    async def receive(delivery: Delivery) -> None:
        reached.set()

    task = asyncio.ensure_future(fetch(client, receive))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(100):
        await bus.none_open.wait()


async def test_an_error_of_receive_is_the_callers(bus: ScriptedBus, client: PubSubClient) -> None:
    """An error of `receive` is raised as it is, without a retry, and no stream stays open."""
    bus.scripts = [endless]

    async def receive(delivery: Delivery) -> None:
        raise StagingError("disk full")

    with pytest.raises(StagingError, match="disk full"):
        await fetch(client, receive)
    async with asyncio.timeout(100):
        await bus.none_open.wait()
    assert len(bus.streams) == 1


async def test_a_terminal_error_before_the_first_event_is_raised(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A refused replay id is raised, and the start is not changed."""

    async def refused(stream: SeenStream) -> AsyncIterator[Any]:
        await stream.fail("INVALID_ARGUMENT", "subscription.fetch.replayid.corrupted")
        yield

    bus.scripts = [refused]
    with pytest.raises(ReplayIdRefusedError, match="rpc-9"):
        await fetch(client, Received(), start="00ff")
    assert len(bus.streams) == 1


async def test_a_refusal_that_is_slower_than_our_patience_is_raised(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A stream that is refused after the idle time raises the refusal, so no run is skipped."""

    async def slow(stream: SeenStream) -> AsyncIterator[Any]:
        await stream.closed()
        await stream.fail("INVALID_ARGUMENT", "subscription.fetch.replayid.corrupted")
        yield

    bus.scripts = [slow]
    with pytest.raises(ReplayIdRefusedError, match="rpc-9"):
        await fetch(client, Received(), start="00ff", idle_seconds=0.1)
    assert len(bus.streams) == 1


async def test_an_error_behind_a_batch_that_has_ended_is_none_of_its(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """An error after a batch has ended is ignored if the stream had answered."""

    async def late(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([1])
        await stream.closed()
        await stream.fail("RESOURCE_EXHAUSTED", "subscription.limit.exceeded")

    bus.scripts, received = [late], Received()
    result = await fetch(client, received, idle_seconds=0.1)
    assert (result.ended_by, received.numbers, result.error) == ("idle_seconds", [1], None)


async def test_a_terminal_error_after_the_first_event_ends_the_batch(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """The events before a terminal error are a batch, and its result holds the error."""

    async def used_up(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([1, 2])
        await stream.fail("RESOURCE_EXHAUSTED", "subscription.limit.exceeded")

    bus.scripts, received = [used_up], Received()
    result = await fetch(client, received)

    assert (result.ended_by, received.numbers, len(bus.streams)) == ("error", [1, 2], 1)
    assert "allowance" in str(result.error)
