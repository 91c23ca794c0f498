"""Waits that share streams and connections, against the emulator: deliveries and open streams."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import ReplayPoint
from tests.integration.pubsub.emulated import (
    LONG,
    TOPIC,
    Received,
    come_true,
    publish,
    running,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult

pytestmark = pytest.mark.anyio


class Waiting:
    """A wait in a task of its own."""

    def __init__(
        self, client: PubSubClient, start: str, events: int, *, topic: str = TOPIC
    ) -> None:
        self.received = Received()
        self.waited: list[str] = []
        bounds = Bounds(max_events=events, **LONG)
        self.task: asyncio.Task[FetchResult] = asyncio.ensure_future(
            client.fetch(topic, ReplayPoint(start), bounds, self.received, on_keepalive=self._hear)
        )

    async def _hear(self, name: str) -> None:
        self.waited.append(name)

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


@asynccontextmanager
async def sharing(topics: int = 0, **settings: Any) -> AsyncIterator[tuple[Emulator, PubSubClient]]:
    """A running pair whose client shares streams, with more topics `/event/T0__e` and so on."""
    async with running(share_streams=True, **settings) as (bus, client):
        for number in range(topics):
            bus.define_event(f"T{number}__e", {"Number__c": "Double"})
        yield bus, client


async def many(bus: Emulator, client: PubSubClient, topics: int) -> list[Waiting]:
    """One wait on each topic, all of them listening."""
    waits = [Waiting(client, "earliest", 1, topic=f"/event/T{n}__e") for n in range(topics)]
    await come_true(lambda: bus.open_streams == topics)
    return waits


def times_called(bus: Emulator, rpc: str) -> int:
    return [call.rpc for call in bus.requests].count(rpc)


async def test_many_waits_of_a_topic_are_one_subscription() -> None:
    """Each event is delivered once for all waits of a topic, and no stream stays open."""
    async with sharing() as (bus, client):
        first = Waiting(client, "earliest", 30)
        await come_true(lambda: bus.open_streams == 1)
        waits = [first, *(Waiting(client, "earliest", 30) for _ in range(24))]
        await asyncio.sleep(0)  # each takes its first step, which is to join
        published = publish(bus, 30)
        for wait in waits:
            assert (await wait.task).ended_by == "max_events"
            assert wait.received.replay_ids == published
        assert (len(bus.subscriptions), bus.deliveries()) == (1, 30)
        assert [call.rpc for call in bus.requests].count("GetTopic") == 1
        bus.wait_open_streams(0)


async def test_more_streams_than_a_connection_takes() -> None:
    """With 100 RPCs per connection no stream hangs, calls pass, and empty connections close."""
    async with sharing(topics=130, max_streams_per_connection=100) as (bus, client):
        for number in range(
            130
        ):  # otherwise streams might begin beside calls, on a third connection
            await client.require_readable(f"/event/T{number}__e")
        waits = await many(bus, client, 130)
        assert bus.connections == 2
        topics = await asyncio.gather(*(client.get_topic(TOPIC) for _ in range(30)))
        assert {topic.name for topic in topics} == {TOPIC}
        for wait in waits[:100]:
            await wait.cancel()
        waits = waits[100:]
        bus.wait_open_streams(30)
        await come_true(lambda: bus.connections == 1)
        bus.publish("/event/T129__e", [{"Number__c": 1.0}])
        assert (await waits[-1].task).events == 1
        for wait in waits:
            await wait.cancel()


async def test_a_storm_of_reconnects(tmp_path: Path) -> None:
    """After a restart of the server all waits continue from their position, with one login."""
    async with sharing(topics=120, folder=tmp_path / "bus", chance=0.3) as (bus, client):
        waits = await many(bus, client, 120)
        await asyncio.to_thread(bus.stop)
        await asyncio.to_thread(bus.start)
        await come_true(lambda: bus.open_streams == 120)
        for number in range(120):
            bus.publish(f"/event/T{number}__e", [{"Number__c": 1.0}])
        results = await asyncio.gather(*(wait.task for wait in waits))
        assert {(result.ended_by, result.events) for result in results} == {("max_events", 1)}
        assert times_called(bus, "token") == 1  # since the restart
        assert bus.deliveries() == 120
        bus.wait_open_streams(0)
