"""Tasks that the tests run in processes of their own: take a batch, or write until killed."""

from __future__ import annotations

import asyncio
import hashlib
import resource
import signal
import sys

from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.leases import LeaseTiming
from airflow_provider_sfevents.staging.manifest import Run
from airflow_provider_sfevents.staging.parts.part_writer import Limits
from tests.unit.staging.building import Delivered


class Incompressible(Delivered):
    """Events with random payloads, from the fifth on; those before have none."""

    @property
    @override
    def payloads(self) -> list[bytes]:
        return [b"" if n < 4 else random_bytes(n) for n in self._numbers]


def batch_at(folder: str) -> BatchFolder:
    return BatchFolder(UPath(folder), "e1-1")


def holder() -> LeaseHolder:
    return LeaseHolder.here(Run(dag="load", run="run-1", task="fetch"), "2026-01-01T00:00:00+00:00")


def take_lease(folder: str) -> None:
    """Wait for a line, take the batch, print the outcome, and hold on until the next line."""
    sys.stdin.readline()
    try:
        taken = batch_at(folder).take_lease(
            holder(), LeaseTiming(lease_seconds=0.5, heartbeat_seconds=0.1)
        )
    except SfEventsError as error:
        say(f"refused {error}")
        return
    say(f"leased {taken.number}")
    sys.stdin.readline()
    taken.release()


def write(folder: str) -> None:
    """Take the batch, and write small files without end; print a line after each delivery."""
    batch = batch_at(folder)

    async def endless() -> None:
        with batch.take_lease(holder()) as taken:
            limits = Limits(part_events=30, chunk_events=10)
            async with batch.writer(taken, "earliest", 0, limits) as writer:
                for n in range(10**9):
                    await writer.append(Delivered(10 * n, 10, size=2000))
                    say(str(n))

    asyncio.run(endless())


def overfill(folder: str) -> None:
    """Write more than a file may hold here."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
    batch = batch_at(folder)

    async def attempt() -> None:
        with batch.take_lease(holder()) as taken:
            async with batch.writer(
                taken, "earliest", 0, Limits(part_events=4, chunk_events=1)
            ) as writer:
                for n in range(20):
                    await writer.append(Incompressible(n, 1))

    try:
        asyncio.run(attempt())
    except SfEventsError as error:
        say(str(error))


def fill(folder: str, events: str) -> None:
    """Write so many events and print the peak memory in KiB."""
    batch = batch_at(folder)
    delivered = Delivered(0, 100, size=200)

    async def attempt() -> None:
        with batch.take_lease(holder()) as taken:
            async with batch.writer(taken, "earliest", 0) as writer:
                for _ in range(int(events) // 100):
                    await writer.append(delivered)

    asyncio.run(attempt())
    say(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def random_bytes(seed: int) -> bytes:
    """Bytes that do not compress."""
    return b"".join(hashlib.sha256(b"%d %d" % (seed, n)).digest() for n in range(1000))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], sys.argv[3])
    else:
        {"lease": take_lease, "write": write, "overfill": overfill}[sys.argv[1]](sys.argv[2])
