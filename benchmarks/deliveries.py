"""Deliveries per landed event, for every way to wait, as the emulator counts them.

Salesforce counts each delivery against a daily allowance. Each way has its own topic and consumer,
and lands bursts in two halves: the second half comes after the first has ended the wait. Waits that
time out half-way leave their events to a later run. Scheduler, triggerer and tasks are real; Spark
has no influence on deliveries, so the run's job only leaves a receipt.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.deployment import STAND_IN, Deployment
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import AirflowServices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.harness.airflow_runs import Run

ROUNDS = 2
HALF = 4
POKE_SECONDS = 5
"""Seconds between two pokes.

Airflow 3.3 fails a rescheduled task that is due before its executor has reported the end of the
last poke.
"""
LIMIT = 1.0

DAGS = """
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger


def waiting(name, schedule=None, **how):
    topic = f"/event/{{name}}__e"
    with DAG(name, schedule=schedule, max_active_runs=1):
        land = SfEventsToSparkOperator(
            task_id="land", topic=topic, application={job!r}, idle_seconds=1
        )
        if how:
            wait = SfEventsSensor(
                task_id="wait", topic=topic, poke_interval={poke}, idle_seconds=1, **how
            )
            wait >> land


def watched(name):
    trigger = SfEventsWatchTrigger(f"/event/{{name}}__e", consumer=name)
    waiting(name, [Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])])


waiting("schedule_only")
watched("event_driven")
for name, how in {modes!r}.items():
    waiting(name, **how)
    times_out = {{"timeout": 15, "soft_fail": True, "min_events": {more}}}
    waiting(f"{{name}}_timed_out", **how | times_out)
"""
MODES = {
    "poke": {"mode": "poke"},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}
WAITING = {"running", "up_for_reschedule", "deferred"}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to wait; its name is that of DAG, consumer and event."""

    here: Deployment
    name: str

    @property
    def topic(self) -> str:
        return f"/event/{self.name}__e"

    def publish(self, count: int = HALF) -> None:
        self.here.bus.publish(self.topic, [{"Number__c": float(number)} for number in range(count)])

    def start(self) -> Run:
        return self.here.airflow.trigger(self.name, {})

    def wait_known(self, events: int) -> None:
        """Wait until so many events that have not landed have been delivered."""
        wait_until(
            lambda: self.delivered() - self.landed() >= events, f"{self.name} is delivered events"
        )

    def delivered(self) -> int:
        return self.here.bus.deliveries(self.topic)

    def landed(self) -> int:
        """Events in the stand-in's table, each batch a file."""
        folder = self.here.folder / "table" / self.name / f"{self.name}__e"
        return sum(len(json.loads(file.read_text())) for file in folder.glob("*.json"))


def scheduled(way: Way) -> None:
    """Publish events before a run begins, and more while it fetches."""
    way.publish()
    run = way.start()
    way.wait_known(1)
    way.publish()
    run.wait("success")


def sensed(way: Way) -> None:
    """A sensor waits when the first half comes."""
    run = way.start()
    wait_until(lambda: (task := run.task("wait")) and task.state in WAITING, f"{way.name} waits")
    way.publish()
    way.wait_known(1)
    way.publish()
    run.wait("success")


def driven(way: Way) -> None:
    """A watcher listens when the first half comes."""

    def cause() -> None:
        way.publish()
        way.wait_known(1)
        way.publish()

    way.here.watched(way.topic)
    way.here.next_run(way.name, cause).wait("success")


def timed_out(way: Way) -> None:
    """Too few come, the sensor gives up and its run is skipped; the next run has enough."""
    run = way.start()
    wait_until(lambda: (task := run.task("wait")) and task.state in WAITING, f"{way.name} waits")
    way.publish()
    tasks = run.wait()
    if tasks["wait"] != "skipped":
        raise SystemExit(f"{way.name}: the sensor did not time out: {tasks}\n{run.log()}")
    way.publish(2 * HALF)
    way.start().wait("success")


WAYS: dict[str, Callable[[Way], None]] = {
    "schedule_only": scheduled,
    **dict.fromkeys(MODES, sensed),
    "event_driven": driven,
    **{f"{mode}_timed_out": timed_out for mode in MODES},
}


def prepare(_: Path, bus: Emulator) -> str:
    for name in WAYS:
        bus.define_event(f"{name}__e", {"Number__c": "Number"})
    return DAGS.format(
        job=str(STAND_IN / "stand_in.py"), modes=MODES, more=HALF + 1, poke=POKE_SECONDS
    )


def measure(rounds: int) -> dict[str, tuple[int, int]]:
    """Events landed and delivered, by way."""
    counts = {}
    with Deployment.running(prepare, services=AirflowServices, spark=False) as here:
        for name, land in WAYS.items():
            way = Way(here, name)
            for _ in range(rounds):
                land(way)
            counts[name] = way.landed(), way.delivered()
    return counts


def main(rounds: int = ROUNDS) -> int:
    counts = measure(rounds)
    print(f"deliveries per landed event, {rounds} rounds each (limit: {LIMIT})")
    for name, (landed, delivered) in counts.items():
        print(
            f"  {name.replace('_', ' '):22} {landed:4} landed  {delivered:4} delivered  "
            f"{delivered / landed:.2f}"
        )
    return 0 if all(delivered <= LIMIT * landed for landed, delivered in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
