"""Events per second on a link with an 80 ms round trip.

The server spreads 100 events over 80 ms in responses of 1 to 16. With at most 100 events
outstanding, each is requested again one round trip after its response was complete: no client can
get more than 100 / (round trip + mean span of a response). The client must reach 0.9 of that. A
stop-and-wait client runs beside it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.replay_point import EARLIEST
from benchmarks.peers import stop_and_wait
from benchmarks.server import TOPIC, running

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

ROUND_TRIP = 0.08
SPAN = 0.08
EVENTS = 5_000
LIMIT = 0.9


async def measured(settings: Settings) -> tuple[float, float]:
    """Events per second from first to last delivery, and the mean span of a response in seconds."""
    arrivals: list[tuple[float, int]] = []

    async def receive(delivery: Delivery) -> None:
        arrivals.append((time.perf_counter(), len(delivery)))

    async with PubSubClient(settings) as client:
        await client.fetch(TOPIC, EARLIEST, Bounds(max_events=EVENTS), receive)
    took = arrivals[-1][0] - arrivals[0][0]
    return (EVENTS - arrivals[0][1]) / took, SPAN / 100 * EVENTS / len(arrivals)


def main() -> int:
    with running(round_trip=ROUND_TRIP, span=SPAN) as settings:
        rate, mean_span = asyncio.run(measured(settings))
        started = time.perf_counter()
        asyncio.run(stop_and_wait(settings, EVENTS // 2))
        waiting = EVENTS / 2 / (time.perf_counter() - started)
    most = 100 / (ROUND_TRIP + mean_span)
    print(
        f"80 ms round trip, 100 events over 80 ms, mean span of a response {mean_span * 1000:.1f} "
        "ms"
    )
    print(f"  most there can be  {most:7.0f} events/s")
    print(
        f"  fetch              {rate:7.0f} events/s  {rate / most:.2f} of it (limit: at least "
        f"{LIMIT})"
    )
    print(f"  stop-and-wait      {waiting:7.0f} events/s  {waiting / most:.2f} of it (no limit)")
    return 0 if rate >= LIMIT * most else 1


if __name__ == "__main__":
    sys.exit(main())
