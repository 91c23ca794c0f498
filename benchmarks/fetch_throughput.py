"""Events per second from a cheap server on loopback with full 100-event responses.

Fetch and stage must reach at least half the rate of a bare grpc.aio reader that drops the events.
The three take turns, and the median of each counts.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from upath import UPath

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.replay_point import EARLIEST
from airflow_provider_sfevents.staging.parts.part_writer import PartWriter
from benchmarks.peers import read_and_throw_away
from benchmarks.server import TOPIC, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

EVENTS = 300_000
ROUNDS = 5
LIMIT = 0.5


async def fetch(settings: Settings, events: int) -> None:
    async def receive(_: Delivery) -> None:
        """Nothing: the client alone."""

    async with PubSubClient(settings) as client:
        await client.fetch(TOPIC, EARLIEST, Bounds(max_events=events), receive)


async def fetch_and_stage(settings: Settings, events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = PartWriter(UPath(Path(folder)), lease=1, start="earliest", first_ordinal=0)

        async def receive(delivery: Delivery) -> None:
            await writer.append(delivery)

        async with writer, PubSubClient(settings) as client:
            await client.fetch(TOPIC, EARLIEST, Bounds(max_events=events), receive)


def rate(run: Callable[[Settings, int], Awaitable[None]], settings: Settings, events: int) -> float:
    async def timed() -> float:
        started = time.perf_counter()
        await run(settings, events)
        return events / (time.perf_counter() - started)

    return asyncio.run(timed())


def main() -> int:
    runs = {"bare reader": read_and_throw_away, "fetch": fetch, "fetch and stage": fetch_and_stage}
    rates: dict[str, list[float]] = {name: [] for name in runs}
    with running() as settings:
        for run in runs.values():
            rate(run, settings, EVENTS // 10)  # imports and caches are not what is measured
        for _ in range(ROUNDS):
            for name, run in runs.items():
                rates[name].append(rate(run, settings, EVENTS))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    peer = medians["bare reader"]
    print(f"{EVENTS:,} events in responses of 100, median of {ROUNDS}")
    for name, median in medians.items():
        limit = f" (limit: at least {LIMIT})" if name == "fetch and stage" else ""
        print(f"  {name:16} {median:9,.0f} events/s  {median / peer:.2f} of the bare reader{limit}")
    return 0 if medians["fetch and stage"] >= LIMIT * peer else 1


if __name__ == "__main__":
    sys.exit(main())
