"""Seconds from publish to the rows in a table, beside an empty event-driven Spark job.

A trigger starts the run of the empty job at once. Both DAGs are in one Airflow with its own
intervals, with the same Spark settings, and take turns. The rows are there when a reader that skips
folders beginning with `_` or `.` counts all of them.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.deployment import WATCHED, Deployment, told
from benchmarks.landing_dag import CONF, FIELDS, some_events
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

ROUNDS = 5
EVENTS = 10
TOPIC = "/event/Bench__e"

DAGS = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

with watched("told", Told({socket!r})):
    SparkSubmitOperator(
        task_id="nothing",
        application="{folder}/nothing.py",
        application_args=["{folder}/ended"],
        conf={conf!r},
    )
with watched("events", SfEventsWatchTrigger({topic!r}, consumer="events")):
    SfEventsToSparkOperator(task_id="land", topic={topic!r}, table="{folder}/lake")
"""

NOTHING = """
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SparkSession.builder.appName("nothing").getOrCreate().stop()
Path(sys.argv[1]).touch()
"""


def prepare(folder: Path, bus: Emulator) -> str:
    bus.define_event("Bench__e", FIELDS)
    (folder / "nothing.py").write_text(NOTHING)
    return WATCHED + DAGS.format(
        socket=str(told(folder)),
        folder=folder,
        topic=TOPIC,
        conf=CONF,
    )


def rows(lake: Path) -> int:
    """As a reader sees them."""
    files = (
        file
        for file in lake.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(lake).parts)
    )
    return sum(pq.read_metadata(file).num_rows for file in files)


def seconds(
    here: Deployment, dag_id: str, cause: Callable[[], object], came: Callable[[], object]
) -> float:
    """From the cause until what it brings about has come; the run has ended when this returns."""
    began = time.perf_counter()
    run = here.next_run(dag_id, cause)
    wait_until(came, f"what {dag_id} brings about")
    took = time.perf_counter() - began
    run.wait("success")
    return took


def measure(rounds: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {"told": [], "events": []}
    with Deployment.running(prepare) as here:
        here.told_listens()
        ended, lake = here.folder / "ended", here.folder / "lake"

        def publish() -> None:
            here.bus.publish(TOPIC, some_events()[:EVENTS])

        def landed(count: int) -> Callable[[], bool]:
            return lambda: rows(lake) >= count

        for _ in range(rounds):
            ended.unlink(missing_ok=True)
            took["told"].append(seconds(here, "told", here.tell, ended.exists))
            here.watched(TOPIC)
            took["events"].append(seconds(here, "events", publish, landed(rows(lake) + EVENTS)))
    return took


def main(rounds: int = ROUNDS) -> int:
    took = measure(rounds)
    floor, ours = (statistics.median(took[name]) for name in ("told", "events"))
    print(f"{EVENTS} events, median of {rounds}")
    print(f"  told to run, to the end of an empty Spark job  {floor:5.1f} s")
    print(
        f"  publish to rows in the table                   {ours:5.1f} s  {ours - floor:+.1f} s "
        "(no limit)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
