"""Peak memory of fetch and stage, and the time of a large batch's first and last events.

Each size is measured in a process of its own, whose peak nothing before has raised; the server is
another process. The two sizes take turns, and the median of each counts.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from upath import UPath

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.replay_point import EARLIEST
from airflow_provider_sfevents.staging.parts.part_writer import PartWriter
from benchmarks.server import TOPIC, running

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

SMALL, LARGE = 100_000, 1_000_000
ROUNDS = 3
MORE_MIB = 64
SLOWER = 1.1
MAXRSS_PER_MIB = 2**20 if sys.platform == "darwin" else 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One batch. The seconds are those of its first and of its last `SMALL` events."""

    peak_mib: float
    first_seconds: float
    last_seconds: float


async def fetch_and_stage(settings: Settings, events: int, folder: Path) -> list[float]:
    """Stage a batch as a task does; return the times of its first and each `SMALL`th event."""
    writer = PartWriter(UPath(folder), lease=1, start="earliest", first_ordinal=0)
    times: list[float] = []
    received = 0

    async def receive(delivery: Delivery) -> None:
        nonlocal received
        if not times:
            times.append(time.perf_counter())
        await writer.append(delivery)
        received += len(delivery)
        if received >= SMALL * len(times):
            times.append(time.perf_counter())

    async with writer, PubSubClient(settings) as client:
        await client.fetch(TOPIC, EARLIEST, Bounds(max_events=events), receive)
    return times


def measure(events: int) -> Measured:
    """Measure this very process."""
    with running() as settings, tempfile.TemporaryDirectory() as folder:
        times = asyncio.run(fetch_and_stage(settings, events, Path(folder)))
    return Measured(
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_PER_MIB,
        first_seconds=times[1] - times[0],
        last_seconds=times[-1] - times[-2],
    )


def measure_apart(events: int) -> Measured:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.staging_memory", str(events)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Measured(**json.loads(ended.stdout))


def main() -> int:
    rounds = [(measure_apart(SMALL), measure_apart(LARGE)) for _ in range(ROUNDS)]
    small_mib = statistics.median(small.peak_mib for small, _ in rounds)
    large_mib = statistics.median(large.peak_mib for _, large in rounds)
    slower = statistics.median(large.last_seconds / large.first_seconds for _, large in rounds)
    print(f"fetch and stage {SMALL:,} and {LARGE:,} events, median of {ROUNDS}")
    print(f"  peak memory at {SMALL:9,}  {small_mib:6.0f} MiB")
    print(
        f"  peak memory at {LARGE:9,}  {large_mib:6.0f} MiB (limit: {small_mib + MORE_MIB:.0f} "
        f"MiB, {MORE_MIB} more)"
    )
    print(f"  last {SMALL:,} events take {slower:.2f} x the first (limit: {SLOWER} x)")
    return 0 if large_mib <= small_mib + MORE_MIB and slower <= SLOWER else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asdict(measure(int(sys.argv[1])))))
    else:
        sys.exit(main())
