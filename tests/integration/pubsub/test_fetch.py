"""Bounded batch, from the first request to the closed stream."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from airflow_provider_sfevents.pubsub.credit import MAX_CREDIT, SPAN
from tests.integration.pubsub.fetching import LONG, Received, a_few, endless, fetch, mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from tests.integration.pubsub.conftest import ScriptedBus, SeenStream

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("max_events", [1, 99, 100, 101, 250, 1000])
async def test_max_events_is_met_exactly(
    bus: ScriptedBus, client: PubSubClient, max_events: int
) -> None:
    """A batch ends with exactly `max_events`, and not one more was requested."""
    bus.scripts, received = [endless], Received()

    result = await fetch(client, received, max_events=max_events)

    assert (result.ended_by, result.events, result.deliveries) == (
        "max_events",
        max_events,
        max_events,
    )
    assert received.numbers == list(range(max_events))
    assert sum(request.num_requested for request in bus.streams[0].requests) == max_events


async def test_credit_is_kept_up_and_never_above_100(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """While a batch wants more, credit is kept up and never exceeds 100."""
    total = 2000

    async def demanding(stream: SeenStream) -> AsyncIterator[Any]:
        while stream.delivered < total:
            await stream.asked(max(1, min(MAX_CREDIT, total - stream.delivered) - SPAN))
            at = stream.delivered
            yield stream.deliver(range(at, at + min(1 + at * 7 % 16, stream.credit)))
        await stream.closed()

    bus.scripts = [demanding]

    result = await fetch(client, Received(), max_events=total)

    assert (result.ended_by, result.events) == ("max_events", total)
    assert bus.streams[0].highest_credit == MAX_CREDIT


async def test_start_is_said_in_the_first_request_only(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """Preset and replay id are in the first request only, as the service demands."""
    bus.scripts = [endless]
    await fetch(client, Received(), start="0000000000000007beef", max_events=150)

    first, *others = bus.streams[0].requests
    assert (first.replay_preset, first.replay_id.hex()) == (2, "0000000000000007beef")
    assert others
    assert {(request.replay_preset, request.replay_id) for request in others} == {(0, b"")}


@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_presets(bus: ScriptedBus, client: PubSubClient, start: str) -> None:
    """A first run requests the given preset."""
    bus.scripts = [a_few]
    await fetch(client, Received(), start=start, max_events=3)
    assert bus.streams[0].start == start


async def test_silence_ends_a_batch(bus: ScriptedBus, client: PubSubClient) -> None:
    """A batch ends after `idle_seconds` without an event, with the events that came."""
    bus.scripts, received = [a_few], Received()
    result = await fetch(client, received, idle_seconds=0.2)
    assert (result.ended_by, received.numbers) == ("idle_seconds", [0, 1, 2])


async def test_keepalives_do_not_break_the_silence(bus: ScriptedBus, client: PubSubClient) -> None:
    """Keepalives do not reset the idle time; the result has the last one's replay id."""

    async def keepalives(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([1])
        for number in range(10, 1000):
            if stream.half_closed:
                return
            message = stream.deliver([])
            message.latest_replay_id = number.to_bytes(8, "big")
            yield message
            await asyncio.sleep(0.02)

    bus.scripts = [keepalives]
    result = await fetch(client, Received(), idle_seconds=0.3)

    assert (result.ended_by, result.events) == ("idle_seconds", 1)
    assert mark(result.last_replay_id) == 1
    assert mark(result.latest_replay_id) > 10


async def test_learning_outlasts_silence_until_a_keepalive(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """With `learn_seconds`, silence ends the batch only once a keepalive has come."""

    async def late_keepalive(stream: SeenStream) -> AsyncIterator[Any]:
        await asyncio.sleep(0.4)
        message = stream.deliver([])
        message.latest_replay_id = b"\1\2"
        yield message
        await stream.closed()

    bus.scripts = [late_keepalive]
    result = await fetch(client, Received(), start="latest", idle_seconds=0.1, learn_seconds=LONG)
    assert (result.ended_by, result.events, result.latest_replay_id) == ("idle_seconds", 0, b"\1\2")


async def test_time_ends_a_batch(bus: ScriptedBus, client: PubSubClient) -> None:
    """`max_seconds` ends the requests even while events keep coming."""

    async def trickle(stream: SeenStream) -> AsyncIterator[Any]:
        at = 0
        while await stream.more():
            yield stream.deliver([at])
            at += 1
            await asyncio.sleep(0.01)

    bus.scripts, received = [trickle], Received()
    result = await fetch(client, received, max_seconds=0.4)
    assert result.ended_by == "max_seconds"
    assert received.numbers == list(range(result.events))


async def test_bytes_end_a_batch_and_credit_runs_down_before(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """`max_bytes` is exceeded only by the events that are needed to see their size."""
    bus.scripts = [endless]  # events of 10 bytes
    result = await fetch(client, Received(), max_bytes=5_000)
    assert result.ended_by == "max_bytes"
    assert 5_000 <= result.bytes <= 5_000 + 10 * 10


async def test_until_ends_a_batch(bus: ScriptedBus, client: PubSubClient) -> None:
    """The first event created at or after `until` ends the requests, and belongs to the batch."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def payload(minutes: int) -> bytes:
        created = int((noon + timedelta(minutes=minutes)).timestamp() * 1000)
        record = {"CreatedDate": created, "CreatedById": "005000000000000AAA", "City__c": None}
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        return out.getvalue()

    schema = fastavro.parse_schema(json.loads(bus.schemas["S"]))

    async def minutes(stream: SeenStream) -> AsyncIterator[Any]:
        minute = -5
        while await stream.more():
            yield stream.deliver([minute + 100], payload(minute))
            minute += 1
            await asyncio.sleep(0.01)

    bus.scripts, received = [minutes], Received()
    result = await fetch(client, received, until=noon)

    assert result.ended_by == "until"
    assert received.numbers[:6] == [95, 96, 97, 98, 99, 100]
    assert result.last_event_at is not None
    assert result.last_event_at >= noon


async def test_what_is_delivered_after_the_half_close_belongs_to_the_batch(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A batch reads its stream to the end, because deliveries are paid for."""

    async def late(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([1, 2])
        await stream.closed()
        yield stream.deliver([3, 4, 5])

    bus.scripts, received = [late], Received()
    result = await fetch(client, received, idle_seconds=0.1)

    assert (result.events, received.numbers) == (5, [1, 2, 3, 4, 5])
    assert mark(result.last_replay_id) == 5
    assert bus.open_streams == 0


async def test_a_full_batch_half_closes_before_it_is_staged(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """The stream is half-closed before the last delivery is staged."""
    bus.scripts = [a_few]

    async def receive(delivery: Delivery) -> None:
        await bus.streams[0].closed()

    result = await fetch(client, receive, max_events=3)
    assert result.ended_by == "max_events"


async def test_credit_is_topped_up_before_receive_is_awaited(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """The next request is sent before `receive` is awaited."""

    async def most(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver(range(80))
        await stream.closed()

    bus.scripts = [most]

    async def receive(delivery: Delivery) -> None:
        await bus.streams[0].asked(100)

    result = await fetch(client, receive, idle_seconds=0.1)
    assert [request.num_requested for request in bus.streams[0].requests] == [100, 80]
    assert result.events == 80


async def test_slow_staging_is_not_silence(bus: ScriptedBus, client: PubSubClient) -> None:
    """Time spent in `receive` does not count as idle, and events that came meanwhile are taken."""

    async def two(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([1])
        yield stream.deliver([2])
        await stream.closed()

    async def receive(delivery: Delivery) -> None:
        await asyncio.sleep(0.3)

    bus.scripts = [two]
    result = await fetch(client, receive, idle_seconds=0.15)
    assert result.events == 2
