"""Events per second from a cheap server on loopback, beside plain readers that drop the events.

1. In full responses of 100 events, fetch and stage must reach at least half the rate of a bare
   grpc.aio reader.
2. In responses of 1 to 16, fetch must reach the rate of a reader that asks for 100 whenever the
   last 100 have come, with at most 4 requests per 100 events.

They take turns, and the median of each counts.
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
from benchmarks.peers import read_and_throw_away, stop_and_wait
from benchmarks.server import TOPIC, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

    Run = Callable[[Settings, int], Awaitable[None]]

EVENTS = 300_000
ROUNDS = 5
LIMIT = 0.5
SMALL_EVENTS = 60_000
SMALL_LIMIT = 1.0
MOST_REQUESTS = 4.0
_requests: dict[str, int] = {}
"""Requests of the latest fetch, as the server has counted them in responses of 1 to 16."""


async def fetch(settings: Settings, events: int) -> None:
    async def receive(delivery: Delivery) -> None:
        _requests["fetch"] = int(delivery.rpc_id)

    async with PubSubClient(settings) as client:
        await client.fetch(TOPIC, EARLIEST, Bounds(max_events=events), receive)


async def fetch_and_stage(settings: Settings, events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = PartWriter(UPath(Path(folder)), lease=1, start="earliest", first_ordinal=0)

        async def receive(delivery: Delivery) -> None:
            await writer.append(delivery)

        async with writer, PubSubClient(settings) as client:
            await client.fetch(TOPIC, EARLIEST, Bounds(max_events=events), receive)


def rate(run: Run, settings: Settings, events: int) -> float:
    async def timed() -> float:
        started = time.perf_counter()
        await run(settings, events)
        return events / (time.perf_counter() - started)

    return asyncio.run(timed())


def medians(runs: Mapping[str, Run], events: int, *, small: bool) -> dict[str, float]:
    """Median rates of runs that take turns."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    with running(small=small) as settings:
        for run in runs.values():
            rate(run, settings, events // 10)  # imports and caches are not what is measured
        for _ in range(ROUNDS):
            for name, run in runs.items():
                rates[name].append(rate(run, settings, events))
    return {name: statistics.median(found) for name, found in rates.items()}


def full_responses() -> bool:
    runs = {"bare reader": read_and_throw_away, "fetch": fetch, "fetch and stage": fetch_and_stage}
    found = medians(runs, EVENTS, small=False)
    peer = found["bare reader"]
    print(f"{EVENTS:,} events in responses of 100, median of {ROUNDS}")
    for name, median in found.items():
        limit = f" (limit: at least {LIMIT})" if name == "fetch and stage" else ""
        print(f"  {name:16} {median:9,.0f} events/s  {median / peer:.2f} of the bare reader{limit}")
    return found["fetch and stage"] >= LIMIT * peer


def small_responses() -> bool:
    found = medians({"asks per 100": stop_and_wait, "fetch": fetch}, SMALL_EVENTS, small=True)
    peer = found["asks per 100"]
    requests = _requests["fetch"] / SMALL_EVENTS * 100
    print(f"{SMALL_EVENTS:,} events in responses of 1 to 16, median of {ROUNDS}")
    for name, median in found.items():
        limit = f" (limit: at least {SMALL_LIMIT})" if name == "fetch" else ""
        print(f"  {name:16} {median:9,.0f} events/s  {median / peer:.2f} of that reader{limit}")
    print(f"  requests of fetch per 100 events: {requests:.1f} (limit: {MOST_REQUESTS})")
    return found["fetch"] >= SMALL_LIMIT * peer and requests <= MOST_REQUESTS


def main() -> int:
    within = [full_responses(), small_responses()]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
