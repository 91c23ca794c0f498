"""Helpers for tests of bounded batches: a fetch, its receiver, and two plain servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import ReplayPoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from tests.integration.pubsub.conftest import SeenStream

TOPIC = "/event/Order__e"
LONG = 120.0


class Received:
    """Events that a batch handed over, in the form that `receive` takes."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    @property
    def numbers(self) -> list[int]:
        return [
            mark(replay_id) for delivery in self.deliveries for replay_id in delivery.replay_ids
        ]


def mark(replay_id: bytes) -> int:
    return int.from_bytes(replay_id[:8], "big")


async def fetch(
    client: PubSubClient, receive: Any, start: str = "earliest", **bounds: Any
) -> FetchResult:
    """A fetch that ends by the given bounds, because the timed defaults are out of reach."""
    timed = {"max_seconds": LONG, "idle_seconds": LONG}
    async with asyncio.timeout(LONG):
        return await client.fetch(TOPIC, ReplayPoint(start), Bounds(**{**timed, **bounds}), receive)


async def endless(stream: SeenStream) -> AsyncIterator[Any]:
    """Deliver requested events in responses of 1 to 16, until the client half-closes."""
    at = 0
    while await stream.more():
        size = min(1 + at * 7 % 16, stream.credit)
        yield stream.deliver(range(at, at + size))
        at += size


async def a_few(stream: SeenStream) -> AsyncIterator[Any]:
    """Deliver three events, then nothing until the client half-closes."""
    yield stream.deliver(range(3))
    await stream.closed()
