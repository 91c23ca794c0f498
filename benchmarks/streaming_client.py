"""The client for programs without Airflow, beside the clients that its users come from.

1. Over the Streaming API, in answers of 100 events: at least twice the events per second of
   `aiosfstream-ng`.
2. Over the Pub/Sub API with a round trip of 80 ms, 100 events spread over 80 ms: at least 1.5 times
   those of the npm client.
3. Memory of 200 channels on one client, over either API. It has no limit.

Each client reads what a cheap server in another process sends, and takes turns with its peer; the
median counts. The peers are installed as the foreign tests install them.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.client import Client, ReplayOption, Secret, SessionToken
from airflow_provider_sfevents.emulator.network.certificates import make_certificates
from airflow_provider_sfevents.pubsub.auth.settings import Settings
from benchmarks import bayeux_server, server, topics
from tests.harness.foreign_clients import ForeignClient, node_program, python_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.harness.foreign_clients import Program

    Measured = Mapping[str, float]

ROUNDS = 5
EVENTS, LIMIT = 20_000, 2.0
FAR_EVENTS, FAR_LIMIT = 3_000, 1.5
ROUND_TRIP = SPAN = 0.08
CHANNELS = 200


async def measure(settings: Settings, transport: str, channel: str, count: int) -> Measured:
    """Receive so many events; returns the seconds between the first and the last."""
    start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "transport": transport}
    async with Client(settings, **start) as client:
        await client.subscribe(channel)
        messages = aiter(client)
        await anext(messages)
        began, used = time.perf_counter(), time.process_time()
        for _ in range(count - 1):
            await anext(messages)
        return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}


def peer(program: Program, opened: Mapping[str, Any], channel: str, count: int) -> Measured:
    """The same by a foreign client in a process of its own."""
    client = ForeignClient(program=program).start()
    try:
        client.order(**opened)
        found: Measured = client.order("measure", topic=channel, count=count)
    finally:
        client.stop()
    return found


def streaming_api(folder: Path) -> bool:
    certificates = make_certificates(folder, "localhost")
    program = python_program("aiosfstream_client.py", folder / "peer", str(certificates.ca_file))
    with bayeux_server.running() as url:
        settings = Settings(login=SessionToken(token=server.TOKEN, instance_url=url))
        user = dict.fromkeys(("consumer_key", "consumer_secret", "username", "password"), "bench")
        opened = {"order": "open", "config": {"login_url": url, **user}, "replay_ids": {}}
        channel = bayeux_server.CHANNEL
        found = medians(
            lambda: asyncio.run(measure(settings, "streaming", channel, EVENTS)),
            lambda: peer(program, opened, channel, EVENTS),
            EVENTS,
        )
    print(f"Streaming API on loopback, {EVENTS:,} events in answers of {bayeux_server.FULL}")
    return report("aiosfstream-ng", found, LIMIT)


def pubsub_api(folder: Path) -> bool:
    certificates = make_certificates(folder, "localhost")
    program = node_program("npm_client.mjs", folder / "npm", str(certificates.ca_file))
    with server.running(round_trip=ROUND_TRIP, span=SPAN, certificates=certificates) as settings:
        config = {
            "authType": "user-supplied",
            "accessToken": server.TOKEN.reveal(),
            "instanceUrl": "https://localhost",
            "pubSubEndpoint": settings.endpoint,
        }
        opened = {"order": "connect", "config": config}
        found = medians(
            lambda: asyncio.run(measure(settings, "pubsub", server.TOPIC, FAR_EVENTS)),
            lambda: peer(program, opened, server.TOPIC, FAR_EVENTS),
            FAR_EVENTS,
        )
    print(f"Pub/Sub API with a round trip of 80 ms, {FAR_EVENTS:,} events in responses of 1 to 16")
    return report("npm client", found, FAR_LIMIT)


def medians(
    ours: Callable[[], Measured], other: Callable[[], Measured], count: int
) -> list[tuple[float, float]]:
    """Events per second and CPU microseconds per event of two clients that take turns."""
    found: list[list[Measured]] = [[], []]
    for _ in range(ROUNDS):
        for one, run in zip(found, (ours, other), strict=True):
            one.append(run())
    return [
        (
            statistics.median((count - 1) / one["seconds"] for one in runs),
            statistics.median(one["cpu"] / count * 1e6 for one in runs),
        )
        for runs in found
    ]


def report(name: str, found: list[tuple[float, float]], limit: float) -> bool:
    (rate, cpu), (peers_rate, peers_cpu) = found
    times = rate / peers_rate
    print(f"  {name:14} {peers_rate:9,.0f} events/s  {peers_cpu:5.0f} µs of CPU per event")
    print(
        f"  {'this client':14} {rate:9,.0f} events/s  {cpu:5.0f} µs of CPU per event  "
        f"{times:.1f} times its rate (limit: at least {limit})",
        flush=True,
    )
    return times >= limit


async def memory(settings: Settings, transport: str, channels: list[str]) -> tuple[int, int]:
    """Bytes of this process with one channel of a client, and with all of them."""
    start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "transport": transport}
    async with Client(settings, **start) as client:
        held = []
        for channel in channels:
            await client.subscribe(channel)
            received = await client.receive()
            if received["channel"] != channel:
                raise SystemExit(f"{received['channel']} came in place of {channel}")
            if channel in {channels[0], channels[-1]}:
                held.append(_resident())
    return held[0], held[1]


def many_channels() -> bool:
    print(f"{CHANNELS} channels on one client, each with an event received")
    with topics.running(120) as bus:
        channels = list(bus.define(CHANNELS))
        extra = bus.connection("session")["extra"]
        login = SessionToken(
            token=Secret(extra["session_token"]), instance_url=extra["instance_url"]
        )
        settings = Settings(login=login, endpoint=bus.endpoint(), plaintext=True)
        for transport in ("streaming", "pubsub"):
            first, last = asyncio.run(memory(settings, transport, channels))
            print(
                f"  {transport:10} {last / 2**20:6.0f} MiB of the process  "
                f"{(last - first) / (CHANNELS - 1) / 2**10:6.1f} KiB for each channel more"
            )
    return True


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        within = [streaming_api(Path(made)), pubsub_api(Path(made)), many_channels()]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
