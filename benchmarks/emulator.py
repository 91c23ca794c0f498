"""Capacity of the emulator: subscribers, deliveries per second, and a day of events on disk.

The clients run on the same two cores. The load is 1,000 subscribers who get 20 events a second
each, 20,000 deliveries a second in all, in three shapes: bursts of 20 on one topic; one event at a
time, which is nearly a response for each delivery; and bursts on 100 topics with ten subscribers
each. Then they all read as fast as they can.

The day is what an Enterprise Edition org may publish in one: 250,000 events an hour. `python -m
benchmarks.emulator --seconds 5 --events 100000` is a quick look.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import loaded

if TYPE_CHECKING:
    from benchmarks.loaded import Loaded

SUBSCRIBERS = 1_000
EACH = 20
"""Events a second that each subscriber gets."""
SECONDS = 20
DAY = 24 * 250_000
LIMIT_RATE = SUBSCRIBERS * EACH
LIMIT_P99 = 1.0
LIMIT_CPU = 2.0
LIMIT_RESTART = 60.0
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Figures of one load.

    :param rate: deliveries a second.
    :param responses: a second.
    :param cpu: cores the emulator used; `clients`: those of its subscribers.
    :param p50: seconds from publish until a subscriber had decoded the event, likewise `p99`.
    """

    rate: float
    responses: float
    cpu: float
    clients: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A day of events in a folder; sizes are in bytes.

    :param publishing: events a second, as they were put there.
    :param memory: of an emulator that has just read them.
    """

    publishing: float
    disk: int
    memory: int
    restart: float


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--seconds", type=int, default=SECONDS)
    asked.add_argument("--events", type=int, default=DAY)
    options = asked.parse_args()
    with loaded.running() as emulator:
        paced = {
            "bursts of 20": live(emulator, topics=1, burst=EACH, seconds=options.seconds),
            "one at a time": live(emulator, topics=1, burst=1, seconds=options.seconds),
            "on 100 topics": live(emulator, topics=100, burst=EACH, seconds=options.seconds),
        }
        emulator.stop()
    with loaded.running() as emulator:
        full = past(emulator, EACH * options.seconds)
        emulator.stop()
    print(f"{SUBSCRIBERS:,} subscribers, {EACH} events a second each, for {options.seconds} s")
    for name, load in paced.items():
        _print(name, load)
    _print("all they can read", full)
    print(
        f"  limits: at least {LIMIT_RATE:,} deliveries/s; p99 at most {LIMIT_P99} s while live;"
        f" emulator and subscribers together at most {LIMIT_CPU} cores"
    )
    day = keep(options.events)
    print(f"{options.events:,} events in a folder (a day at 250,000 an hour: {DAY:,})")
    print(f"  publishing {day.publishing:8,.0f} events/s")
    print(
        f"  disk       {day.disk / 1e6:8,.0f} MB  {day.disk / options.events:4.0f} bytes an event"
    )
    print(
        f"  memory     {day.memory / 1e6:8,.0f} MB  {day.memory / options.events:4.0f} bytes an "
        "event"
    )
    print(f"  restart    {day.restart:8.1f} s (limit: {LIMIT_RESTART})")
    within = all(
        load.rate >= 0.99 * LIMIT_RATE
        and load.p99 <= LIMIT_P99
        and load.cpu + load.clients <= LIMIT_CPU
        for load in paced.values()
    )
    return 0 if within and full.rate >= LIMIT_RATE and day.restart <= LIMIT_RESTART else 1


def live(emulator: Loaded, *, topics: int, burst: int, seconds: int) -> Load:
    """Measure the delivery of events while they are published."""
    names = emulator.define(topics)
    with _subscribers(emulator, names, start="LATEST", until=EACH * seconds) as process:
        wait_until = time.monotonic() + READY_SECONDS
        while emulator.open_streams() < SUBSCRIBERS:
            if time.monotonic() > wait_until:
                raise SystemExit(
                    f"{emulator.open_streams()} of {SUBSCRIBERS} subscribers are there"
                )
            time.sleep(0.1)
        before, began = emulator.cpu(), time.time()
        emulator.publish_paced(names, EACH * seconds // burst, burst, burst / EACH)
        found = _found(process)
        return _load(found, emulator.cpu() - before, max(found["ended"] - began, seconds))


def past(emulator: Loaded, each: int) -> Load:
    """Measure the delivery of past events to all subscribers."""
    names = emulator.define(1)
    emulator.fill(names[0], each)
    before = emulator.cpu()
    with _subscribers(emulator, names, start="EARLIEST", until=each) as process:
        found = _found(process)
    return _load(found, emulator.cpu() - before, found["seconds"])


def keep(events: int) -> Kept:
    """Publish into a folder, and start again with it."""
    with tempfile.TemporaryDirectory() as folder:
        with loaded.running(folder) as emulator:
            [topic] = emulator.define(1)
            seconds = emulator.fill(topic, events)
            emulator.stop()
        disk = sum(file.stat().st_size for file in Path(folder).rglob("bus*.log"))
        with loaded.running(folder) as emulator:
            kept = Kept(
                publishing=events / seconds,
                disk=disk,
                memory=emulator.memory(),
                restart=emulator.started(),
            )
            emulator.stop()
        return kept


def _subscribers(
    emulator: Loaded, topics: list[str], *, start: str, until: int
) -> subprocess.Popen[str]:
    endpoint, headers = emulator.where()
    asked = {
        "endpoint": endpoint,
        "headers": headers,
        "topics": topics,
        "start": start,
        "count": SUBSCRIBERS,
        "until": until,
    }
    command = [sys.executable, "-m", "benchmarks.subscribers", json.dumps(asked)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _found(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit("the subscribers ended with an error")
    return dict(json.loads(said))


def _load(found: dict[str, Any], cpu: float, seconds: float) -> Load:
    return Load(
        rate=found["delivered"] / seconds,
        responses=found["responses"] / seconds,
        cpu=cpu / seconds,
        clients=found["cpu"] / seconds,
        p50=found["p50"],
        p99=found["p99"],
    )


def _print(name: str, load: Load) -> None:
    print(
        f"  {name:18} {load.rate:8,.0f} deliveries/s in {load.responses:7,.0f} responses/s"
        f"  emulator {load.cpu:4.2f} cores, subscribers {load.clients:4.2f}"
        f"  p50 {load.p50:5.2f} s  p99 {load.p99:5.2f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
