"""Streams lost inside a batch: replacement, start of the next one, and the final error."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST
from tests.integration.pubsub.conftest import ORG_ID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from tests.integration.pubsub.conftest import ScriptedBus, SeenStream

pytestmark = pytest.mark.anyio
TOPIC = "/event/Order__e"
QUIET = Bounds(max_events=5, max_seconds=120, idle_seconds=120)


async def three(stream: SeenStream) -> AsyncIterator[Any]:
    yield stream.deliver([3, 4, 5])
    await stream.closed()


def losing(status: str, code: str = "") -> Any:
    """Two events, then an end of this kind."""

    async def script(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([1, 2])
        await stream.fail(status, code)

    return script


class Received(list[int]):
    async def __call__(self, delivery: Delivery) -> None:
        self.extend(int.from_bytes(replay_id[:8], "big") for replay_id in delivery.replay_ids)


async def test_a_cancelled_stream_is_replaced(bus: ScriptedBus, client: PubSubClient) -> None:
    """A stream that the service cancels is replaced by one that starts after the last event."""
    bus.scripts, received = [losing("CANCELLED"), three], Received()

    result = await client.fetch(TOPIC, EARLIEST, QUIET, received)

    assert (result.ended_by, received, result.losses) == ("max_events", [1, 2, 3, 4, 5], 1)
    assert [stream.start for stream in bus.streams] == ["earliest", "00000000000000020000"]
    assert bus.streams[1].requests[0].num_requested == 3


@pytest.mark.parametrize("status", ["OK", "UNAVAILABLE"])
async def test_what_was_delivered_before_the_end_is_not_lost(
    bus: ScriptedBus, client: PubSubClient, status: str
) -> None:
    """A stream that ends during a write still yields all its responses, which are paid for."""

    async def burst(stream: SeenStream) -> AsyncIterator[Any]:
        for number in range(20):
            yield stream.deliver([number])
        if status != "OK":
            await stream.fail(status)

    async def last(stream: SeenStream) -> AsyncIterator[Any]:
        yield stream.deliver([20])
        await stream.closed()

    async def receive(delivery: Delivery) -> None:
        await received(delivery)
        if len(received) == 1:
            await bus.none_open.wait()  # from here on every request meets a stream that has ended

    bus.scripts, received = [burst, last], Received()
    bounds = Bounds(max_seconds=120, idle_seconds=0.2)
    result = await client.fetch(TOPIC, EARLIEST, bounds, receive)

    assert (received, result.losses, result.deliveries) == (list(range(21)), 1, 21)
    assert bus.streams[1].start == "00000000000000130000"


async def test_a_keepalive_is_a_place_to_go_on_from(bus: ScriptedBus, client: PubSubClient) -> None:
    """A first run at `latest` continues from its last keepalive and misses no event."""

    async def keepalive(stream: SeenStream) -> AsyncIterator[Any]:
        message = stream.deliver([])
        message.latest_replay_id = b"\xab\xcd"
        yield message

    bus.scripts, received = [keepalive, three], Received()
    bounds = Bounds(max_events=3, max_seconds=120, idle_seconds=120)

    await client.fetch(TOPIC, LATEST, bounds, received)

    assert [stream.start for stream in bus.streams] == ["latest", "abcd"]


async def test_time_that_runs_out_while_the_service_is_away_is_an_error(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """An empty batch whose time ran out while the service was away raises an error."""
    lost = 0

    async def down(stream: SeenStream) -> AsyncIterator[Any]:
        nonlocal lost
        lost += 1
        await asyncio.sleep(0.05 if lost < 3 else 30)
        await stream.fail("UNAVAILABLE")
        yield

    bus.scripts = [down]
    bounds = Bounds(max_seconds=0.5, idle_seconds=120)
    with pytest.raises(TransportError, match="it broke"):
        await client.fetch(TOPIC, EARLIEST, bounds, Received())


async def test_a_session_token_that_is_refused_mid_stream_says_so(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A refused session token ends the batch with a remedy, and the error does not show it."""
    bus.scripts = [losing("UNAUTHENTICATED", "service.auth.error")]
    result = await client.fetch(TOPIC, EARLIEST, QUIET, Received())

    assert (result.ended_by, result.events) == ("error", 2)
    assert isinstance(result.error, AuthenticationError)
    assert f"fresh one of the org at https://acme.my.salesforce.com (org id {ORG_ID})" in str(
        result.error
    )
    assert "secret" not in str(result.error)


async def test_a_subscription_goes_on_over_lost_streams(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """The endless iterator yields every event once, and closes its stream when it is closed."""
    bus.scripts = [losing("UNAVAILABLE"), three]
    numbers: list[int] = []
    async with aclosing(client.subscribe(TOPIC, EARLIEST)) as deliveries:
        async for delivery in deliveries:
            numbers += [int.from_bytes(replay_id[:8], "big") for replay_id in delivery.replay_ids]
            if len(numbers) == 5:
                break
    assert numbers == [1, 2, 3, 4, 5]
    async with asyncio.timeout(100):
        await bus.none_open.wait()


async def test_a_subscription_asks_for_no_more_than_its_credit(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """The endless iterator never has more events outstanding than its credit."""

    async def one_by_one(stream: SeenStream) -> AsyncIterator[Any]:
        for number in range(5):
            await stream.asked()
            yield stream.deliver([number])

    bus.scripts = [one_by_one]
    async with aclosing(client.subscribe(TOPIC, LATEST, credit=1)) as deliveries:
        count = 0
        async for _ in deliveries:
            count += 1
            if count == 5:
                break
    assert bus.streams[0].highest_credit == 1
