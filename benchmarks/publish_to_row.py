"""Seconds from publish to rows in a table, for runs that a watcher starts.

1. `connect`: rows of a Delta table over a warm Spark Connect server, as in `make ui`.
2. `record`: records of a Delta current-state table, in the same way.
3. `submit`: rows of a Parquet table by `spark-submit`.

The floor is the same run with an empty task, or with an empty Spark job: the seconds until our task
has begun, and those of such a task, which takes turns with ours in the same Airflow. It has
Airflow's own intervals. The ends are those of the commits, by the tables' files.
`python -m benchmarks.publish_to_row connect 50` measures one of them, with as many bursts.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from typing_extensions import override

from benchmarks.deployment import ROOT, WATCHED, Deployment
from benchmarks.landing_dag import CONF, FIELDS, some_events
from scripts.local_spark_connect import LocalSparkConnect
from tests.harness.jars import Jars
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_sfevents.emulator import Emulator

BURSTS = {"connect": 10, "record": 5, "submit": 5}
MOST_EVENTS = 100
MORE_SECONDS = {"connect": 4.0, "record": 4.0, "submit": 4.0}
STAGES = ("announced", "queued", "begun", "staged", "row", "record")

DAGS = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import task

with DAG("floor", schedule=None):
    {floor}
with watched("events", SfEventsWatchTrigger({topic!r}, consumer="events")):
    SfEventsToSparkOperator(task_id="land", topic={topic!r}, table="{folder}/lake", {options})
"""

EMPTY = """
    @task(task_id="nothing")
    def nothing():
        pass

    nothing()
"""
EMPTY_JOB = """
    SparkSubmitOperator(task_id="nothing", application="{folder}/nothing.py", conf={conf!r})
"""
NOTHING = """
from pyspark.sql import SparkSession

SparkSession.builder.appName("nothing").getOrCreate().stop()
"""


class Kind:
    """Events to publish, and the tables in which they arrive."""

    topic = "/event/Bench__e"
    options = 'table_format="delta", spark_conn_id="spark_connect"'
    floor = EMPTY
    tables: Sequence[str] = ("lake/Bench__e",)

    def define(self, bus: Emulator) -> None:
        bus.define_event("Bench__e", FIELDS)

    def publish(self, bus: Emulator, count: int) -> None:
        bus.publish(self.topic, some_events()[:count])


class Record(Kind):
    """Change events, which are applied to records."""

    topic = "/data/Bench__ChangeEvent"
    options = f'{Kind.options}, current_state="{{folder}}/state", new_entities="empty"'
    tables = ("lake/Bench__ChangeEvent", "state/Bench__c")

    @override
    def define(self, bus: Emulator) -> None:
        bus.define_object("Bench__c", FIELDS)

    @override
    def publish(self, bus: Emulator, count: int) -> None:
        with bus.transaction() as transaction:
            for event in some_events()[:count]:
                transaction.create("Bench__c", event)


class Submit(Kind):
    """By `spark-submit`."""

    options = ""
    floor = EMPTY_JOB


KINDS = {"connect": Kind(), "record": Record(), "submit": Submit()}


def prepare(kind: Kind) -> Callable[[Path, Emulator], str]:
    def text(folder: Path, bus: Emulator) -> str:
        kind.define(bus)
        (folder / "nothing.py").write_text(NOTHING)
        return WATCHED + DAGS.format(
            folder=folder,
            floor=kind.floor.strip().format(folder=folder, conf=CONF),
            topic=kind.topic,
            options=kind.options.format(folder=folder),
        )

    return text


def empty_task(here: Deployment) -> float:
    """Seconds of the empty task."""
    run = here.airflow.trigger("floor", {})
    run.wait("success")
    task = here.airflow.request("GET", f"{run.path}/taskInstances/nothing")
    return seconds(task["start_date"], task["end_date"])


def burst(here: Deployment, kind: Kind) -> list[float]:
    """Publish a burst; returns the seconds until each of `STAGES` was reached."""
    here.watched(kind.topic)
    time.sleep(random.random())  # noqa: S311 - any moment of the second
    count = random.randint(1, MOST_EVENTS)  # noqa: S311 - any number
    began = datetime.now(UTC)
    run = here.next_run("events", lambda: kind.publish(here.bus, count))
    run.wait("success")
    task = here.airflow.request("GET", f"{run.path}/taskInstances/land")
    reached = [(at - began).total_seconds() for at in here.times(run)]
    reached.append((datetime.fromisoformat(task["start_date"]) - began).total_seconds())
    [staged] = re.findall(r"staged in ([\d.]+) s", run.log("land"))
    reached.append(reached[-1] + float(staged))
    ends = (last_file(here.folder / table) for table in kind.tables)
    return [*reached, *(end - began.timestamp() for end in ends)]


def seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def last_file(table: Path) -> float:
    """Time of the last file with which a reader sees rows."""
    log = table / "_delta_log"
    files = log.glob("*.json") if log.exists() else table.rglob("*.parquet")
    return max(one.stat().st_mtime for one in files)


@contextmanager
def deployment(kind: Kind) -> Iterator[Deployment]:
    """Run Airflow, with a connection to a warm Spark Connect server if it is asked for."""
    with ExitStack() as stack:
        connections = {}
        if "spark_connect" in kind.options:
            settings = {**os.environ, **environment(), "PYTHONPATH": str(ROOT)}
            folder = Path(stack.enter_context(TemporaryDirectory()))
            jars = [str(one) for one in Jars().delta]
            server = stack.enter_context(LocalSparkConnect.running(folder, settings, jars=jars))
            connections["spark_connect"] = server.connection()
        yield stack.enter_context(Deployment.running(prepare(kind), connections=connections))


def measure(kind: Kind, bursts: int) -> tuple[list[float], list[list[float]]]:
    """Measure empty tasks and bursts; the first two of each do not count: all has just begun."""
    floor, ours = [], []
    with deployment(kind) as here:
        for _ in range(bursts + 2):
            floor.append(empty_task(here))
            ours.append(burst(here, kind))
    return floor[2:], ours[2:]


def report(name: str, floor: list[float], ours: list[list[float]]) -> bool:
    """Print the figures; True: they are within the limit."""
    stages = dict(zip(STAGES, map(list, zip(*ours, strict=True)), strict=False))
    print(f"  {name}: from publish, {len(ours)} bursts of 1 to {MOST_EVENTS} events: p50, p95")
    for stage, values in stages.items():
        p50, p95 = p50_p95(values)
        print(f"    {stage:12} {p50:6.2f} s {p95:6.2f} s")
    if name == "record":
        beside, least = "the row", statistics.median(stages["row"])
    else:
        empty = statistics.median(floor)
        beside = f"an empty task, which takes {empty:.2f} s"
        least = statistics.median(stages["begun"]) + empty
    end: float = statistics.median([one[-1] for one in ours])
    within: bool = end <= least + MORE_SECONDS[name]
    print(
        f"    {end:.2f} s; limit {least + MORE_SECONDS[name]:.2f} s: {MORE_SECONDS[name]} s more "
        f"than {beside}{'' if within else '  NOT within'}",
        flush=True,
    )
    return within


def p50_p95(values: list[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    if len(values) < 2:
        return values[0], values[0]
    return statistics.median(values), statistics.quantiles(values, n=20, method="inclusive")[-1]


def main(chosen: str = "", bursts: str = "") -> int:
    names = [chosen] if chosen else list(KINDS)
    ended = [report(name, *measure(KINDS[name], int(bursts or BURSTS[name]))) for name in names]
    return 0 if all(ended) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
