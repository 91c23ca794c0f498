"""Cost of an idle wait in a triggerer: memory, CPU, streams and connections.

A real triggerer holds 1,000 `SfEventsTrigger`s of deferred tasks, first with a topic each so that
no stream is shared, then on one topic. The peer is the same triggerer with 1,000 triggers that only
sleep. The first trigger of any kind that looks up a connection makes a triggerer load Airflow's
API, which costs many times a wait and is shown apart.

The measured time contains keepalives, one every 120 s on each stream, as observed on live orgs; the
service promises one every 270 s. The emulator is another process. `python -m benchmarks.idle_waits
--waits 200 --seconds 60` is a quick look.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import topics
from benchmarks.deferred import DAG_ID, RUN_ID, TASK_ID, Triggers
from benchmarks.triggerer import Triggerer
from tests.harness.airflow_home import AirflowHome, make_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

WAITS = 1_000
SECONDS = 250
"""Two keepalives on each stream."""
FLOOR_SECONDS = 60
"""Of triggers that sleep, whose time is all the same."""
KEEPALIVE_SECONDS = 120
SETTLE_SECONDS = 10
QUIET_CPU = 0.1
LIMIT_KB = 100
LIMIT_CPU_MS = 10
MOST_STREAMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Resources of a triggerer that holds triggers.

    :param memory: bytes at the end of the measured time; `grown` is the increase since its
        beginning.
    :param cpu: CPU seconds per minute.
    :param streams: number of streams of each connection that has any.
    :param keepalives: keepalives in the measured time.
    """

    memory: int
    grown: int
    cpu: float
    streams: tuple[int, ...] = ()
    keepalives: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Resources of a triggerer with sleeping triggers, and the increase at its first use.

    :param connected: bytes after one more sleeping trigger has looked up a connection.
    :param listening: bytes after the first wait has begun, with all its imports and connections.
    """

    asleep: Held
    connected: int
    listening: int


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--waits", type=int, default=WAITS)
    asked.add_argument("--seconds", type=int, default=SECONDS)
    waits, seconds = (chosen := asked.parse_args()).waits, chosen.seconds
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or else nothing is ended
    _allow_open_files(2 * waits + 1_000)  # a deferred task has a log file of its own
    with tempfile.TemporaryDirectory() as folder, topics.running(KEEPALIVE_SECONDS) as bus:
        database = make_database(_made(Path(folder) / "database"))
        places = bus.define(waits)

        def home(name: str) -> AirflowHome:
            made = AirflowHome.create(Path(folder) / name, database)
            made.environment["PYTHONPATH"] = str(Path(__file__).parents[1])
            return made

        floor = _asleep(home("sleep"), bus, waits, min(seconds, FLOOR_SECONDS), places)
        apart = _waiting(home("apart"), bus, list(places.items()), seconds)
        together = _waiting(home("together"), bus, [next(iter(places.items()))] * waits, seconds)
    print(
        f"{waits:,} triggers on one triggerer, {seconds} s, a keepalive every {KEEPALIVE_SECONDS} s"
    )
    _print("that sleep", floor.asleep)
    print(f"  {'and a connection':24} {_mib(floor.connected)}")
    print(f"  {'and the first wait':24} {_mib(floor.listening)}")
    _print("that wait, a topic each", apart)
    _print("that wait, one place", together)
    print("a wait, above those that sleep and a connection")
    within = [
        _within("a topic each", apart, floor, waits),
        _within("one place", together, floor, waits),
    ]
    return 0 if all(within) else 1


def _print(what: str, held: Held) -> None:
    print(
        f"  {what:24} {_mib(held.memory)} ({held.grown / 2**20:+.1f})  {held.cpu:6.2f} s CPU a "
        "minute"
    )
    if held.streams:
        print(
            f"  {'':24} {sum(held.streams):,} streams on {len(held.streams)} connections, at most "
            f"{max(held.streams)} on one"
            f" (limit: {MOST_STREAMS}); {held.keepalives:,} keepalives came"
        )


def _within(what: str, held: Held, floor: Floor, waits: int) -> bool:
    memory = (held.memory - floor.connected) / waits / 1_000
    cpu = (held.cpu - floor.asleep.cpu) * 1_000 / waits
    first = (floor.listening - floor.connected) / waits / 1_000
    print(
        f"  {what:24} {memory:6.1f} kB (limit: {LIMIT_KB}; the first wait's share is {first:.1f})  "
        f"{cpu:6.2f} ms CPU a minute (limit: {LIMIT_CPU_MS})"
    )
    return memory <= LIMIT_KB and cpu <= LIMIT_CPU_MS and max(held.streams) <= MOST_STREAMS


def _mib(size: float) -> str:
    return f"{size / 2**20:6.0f} MiB"


def _asleep(
    home: AirflowHome, bus: topics.Topics, count: int, seconds: float, places: Mapping[str, str]
) -> Floor:
    with _holding(home, _sleepers(range(count))) as triggerer:
        asleep = _measured(triggerer, bus, count, seconds)
        waits = _waits(bus, list(places.items())[:1])
        _sleepers([count], waits.connections).defer(home.environment)
        connected = _settled(triggerer, count + 1)
        replace(waits, connections={}).defer(home.environment)
        _wait_listening(triggerer, bus, 1)
        listening = _settled(triggerer, count + 2)
    _wait_gone(bus)
    return Floor(asleep=asleep, connected=connected, listening=listening)


def _sleepers(numbers: Iterable[int], connections: Mapping[str, Any] | None = None) -> Triggers:
    """Triggers that only sleep, after they have looked up these connections, if any."""
    conn_id = next(iter(connections or ()), "")
    return Triggers(
        classpath="benchmarks.floors.Sleep",
        arguments=[{"number": number, "conn_id": conn_id} for number in numbers],
        connections=dict(connections or {}),
    )


def _settled(triggerer: Triggerer, count: int) -> int:
    """Bytes a moment after the triggerer has taken so many triggers."""
    triggerer.wait_holding(count)
    _settle(triggerer)
    return triggerer.usage().memory


def _settle(triggerer: Triggerer) -> None:
    """Until it has begun all that it holds, and so has little to do."""

    def quiet() -> bool:
        before = triggerer.usage().cpu_seconds
        time.sleep(SETTLE_SECONDS)
        return triggerer.usage().cpu_seconds - before < QUIET_CPU * SETTLE_SECONDS

    _wait(quiet, triggerer.said)


def _waiting(
    home: AirflowHome, bus: topics.Topics, places: list[tuple[str, str]], seconds: float
) -> Held:
    """A wait for each of these places, topic and replay id."""
    with _holding(home, _waits(bus, places)) as triggerer:
        triggerer.wait_holding(len(places))
        _wait_listening(triggerer, bus, len(set(places)))
        held = _measured(triggerer, bus, len(places), seconds)
    _wait_gone(bus)
    return held


def _waits(bus: topics.Topics, places: list[tuple[str, str]]) -> Triggers:
    """Triggers of sensors that found no event after these replay ids, with a consumer each."""
    org_id = bus.org_id()
    until = datetime.now(UTC) + timedelta(days=1)
    return Triggers(
        classpath="airflow_provider_sfevents.triggers.sfevents.SfEventsTrigger",
        arguments=[
            {
                "next_batch": {
                    "org_id": org_id,
                    "consumer": f"idle_{number}",
                    "topic": topic,
                    "epoch": f"{number:012x}",
                    "batch_number": 7,
                    "start": replay_id,
                },
                "conn_id": "sfevents_default",
                "staging": None,
                "min_events": 1,
                "until": until.isoformat(),
                "run": {"dag": DAG_ID, "run": RUN_ID, "task": TASK_ID, "map_index": number},
            }
            for number, (topic, replay_id) in enumerate(places)
        ],
        connections={"sfevents_default": bus.connection()},
    )


@contextmanager
def _holding(home: AirflowHome, triggers: Triggers) -> Iterator[Triggerer]:
    triggers.defer(home.environment)
    with Triggerer.running(home) as triggerer:
        yield triggerer


def _measured(triggerer: Triggerer, bus: topics.Topics, count: int, seconds: float) -> Held:
    triggerer.wait_holding(count)
    _settle(triggerer)
    before, keepalives, began = triggerer.usage(), bus.keepalives(), time.monotonic()
    time.sleep(seconds)
    after, took = triggerer.usage(), time.monotonic() - began
    if triggerer.held() != count:
        raise SystemExit(
            f"{count - triggerer.held()} of {count} triggers did not last:\n{triggerer.said()}"
        )
    return Held(
        memory=after.memory,
        grown=after.memory - before.memory,
        cpu=(after.cpu_seconds - before.cpu_seconds) / took * 60,
        streams=tuple(bus.streams_by_connection()),
        keepalives=bus.keepalives() - keepalives,
    )


def _wait_listening(triggerer: Triggerer, bus: topics.Topics, streams: int) -> None:
    _wait(lambda: bus.open_streams() >= streams, triggerer.said)


def _wait_gone(bus: topics.Topics) -> None:
    _wait(lambda: not bus.open_streams(), lambda: "")


def _wait(true: Any, said: Any, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise SystemExit(f"that did not come within {seconds} s\n{said()}")
        time.sleep(0.5)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count), hard), hard))


if __name__ == "__main__":
    sys.exit(main())
