"""Seconds from publish until a DAG run is queued, beside a trigger that fires on order.

Scheduler, triggerer, DAG processor and API server are real and run with Airflow's own intervals;
both DAGs are in one Airflow, and their bursts take turns. A burst comes while the watcher listens,
at any moment of the second between two polls of scheduler and triggerer. Spark takes no part: the
run's job only leaves a receipt.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks.deployment import STAND_IN, WATCHED, Deployment, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

BURSTS = 20
EVENTS = 5
TOPIC = "/event/Bench__e"

DAGS = """
from airflow.providers.standard.operators.empty import EmptyOperator

with watched("told", Told({socket!r})):
    EmptyOperator(task_id="nothing")
with watched("events", SfEventsWatchTrigger({topic!r}, consumer="events")):
    SfEventsToSparkOperator(task_id="land", topic={topic!r}, application={job!r})
"""


def prepare(folder: Path, bus: Emulator) -> str:
    bus.define_event("Bench__e", {"Number__c": "Number"})
    return WATCHED + DAGS.format(
        socket=str(told(folder)),
        topic=TOPIC,
        job=str(STAND_IN / "stand_in.py"),
    )


@dataclass(frozen=True, slots=True)
class Burst:
    """Seconds from publish, or from the order, until the event was stored and the run queued."""

    stored: float
    queued: float


def burst(here: Deployment, dag_id: str, cause: Callable[[], object]) -> Burst:
    """The run has ended when this returns."""
    time.sleep(random.random())  # noqa: S311 - any moment of the second
    began = datetime.now(UTC)
    run = here.next_run(dag_id, cause)
    run.wait("success")
    stored, queued = here.times(run)
    return Burst((stored - began).total_seconds(), (queued - began).total_seconds())


def measure(bursts: int) -> tuple[list[Burst], list[Burst]]:
    """Measure the ordered trigger and the watcher.

    The first burst of each does not count, because Airflow has just been started.
    """
    floor, ours = [], []
    events = [{"Number__c": float(number)} for number in range(EVENTS)]
    with Deployment.running(prepare, spark=False) as here:
        here.told_listens()
        for _ in range(bursts + 1):
            floor.append(burst(here, "told", here.tell))
            here.watched(TOPIC)
            ours.append(burst(here, "events", lambda: here.bus.publish(TOPIC, events)))
    return floor[1:], ours[1:]


def main(bursts: int = BURSTS) -> int:
    floor, ours = measure(bursts)
    print(f"from publish to DAG run queued, {bursts} bursts of {EVENTS} events")
    print("                                   event stored       run queued")
    print("                                  p50      p95      p50      p95")
    _print("a trigger that fires at once", floor)
    _print("SfEventsWatchTrigger", ours)
    return 0


def _print(what: str, bursts: list[Burst]) -> None:
    stored = _p50_p95([one.stored for one in bursts])
    queued = _p50_p95([one.queued for one in bursts])
    print(f"  {what:28}" + "".join(f"  {value:5.2f} s" for value in (*stored, *queued)))


def _p50_p95(values: list[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    return statistics.median(values), statistics.quantiles(values, n=20, method="inclusive")[-1]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
