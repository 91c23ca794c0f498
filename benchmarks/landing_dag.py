"""Seconds of `airflow dags test` for a one-operator DAG, beside a bare `SparkSubmitOperator`.

All handle 1,000 events or rows. The peer's Spark job reads a Parquet file and writes it again,
nothing else, so the difference is all that this package adds: login, fetch, staging, decoding,
receipt, commit, and the jars and commits of the format. All run in the same Airflow with the same
Spark settings, in turn, and the median of each counts.
`python -m benchmarks.landing_dag 5` makes five rounds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.harness.airflow_home import AirflowHome, make_database
from tests.harness.jars import Jars
from tests.harness.spark import environment

EVENTS = 1_000
ROUNDS = 3
MORE_SECONDS = {"parquet": 4.0, "delta": 10.0, "iceberg": 10.0}
"""By format of the tables, beside the peer."""
CONF = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
"""Spark settings of the operator; the peer gets the same, because it would log more otherwise."""

DAGS = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

for table_format, jars in {jars!r}.items():
    with DAG(table_format, schedule=None):
        SfEventsToSparkOperator(
            task_id="land",
            topic={topic!r},
            table="{folder}/" + table_format,
            table_format=table_format,
            jars=jars,
            max_events={events},
        )
with DAG("rows", schedule=None):
    SparkSubmitOperator(
        task_id="copy",
        application="{folder}/copy_rows.py",
        application_args=["{folder}/rows.parquet", "{folder}/copy"],
        conf={conf!r},
    )
"""

COPY = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("rows").getOrCreate()
spark.read.parquet(sys.argv[1]).write.mode("append").parquet(sys.argv[2])
spark.stop()
"""

FIELDS = {"Number__c": "Text", "City__c": "Text", "Amount__c": "Double", "Due__c": "DateTime"}


def some_events() -> list[dict[str, object]]:
    return [
        {
            "Number__c": f"N-{number}",
            "City__c": "Dresden",
            "Amount__c": number / 4,
            "Due__c": 1_793_491_200_000 + number,
        }
        for number in range(EVENTS)
    ]


def prepare(folder: Path, bus: Emulator) -> AirflowHome:
    """An Airflow with the DAGs, and what they work on."""
    (folder / "database").mkdir()
    home = AirflowHome.create(folder / "airflow", make_database(folder / "database"))
    home.environment.update(environment())
    home.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
    home.connect("sfevents_default", bus.connection())
    topic = bus.define_event("Bench__e", FIELDS)
    own = {"parquet": [], "delta": Jars().delta, "iceberg": Jars().iceberg}
    jars = {name: ",".join(map(str, paths)) or None for name, paths in own.items()}
    dags = DAGS.format(folder=folder, topic=topic, events=EVENTS, conf=CONF, jars=jars)
    (home.dags / "bench.py").write_text(dags)
    (folder / "copy_rows.py").write_text(COPY)
    pq.write_table(pa.Table.from_pylist(some_events()), folder / "rows.parquet")
    return home


def seconds(home: AirflowHome, dag: str, day: int) -> float:
    """Seconds of a run, from the command's start to its end.

    :raises SystemExit: the run failed.
    """
    started = time.perf_counter()
    run = home.test_dag(dag, f"2026-01-{day:02}")
    took = time.perf_counter() - started
    if run.state != "success":
        raise SystemExit(f"the DAG {dag} ended {run.state}:\n{run.log[-4000:]}")
    return took


def measure(rounds: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in (*MORE_SECONDS, "rows")}
    with (
        tempfile.TemporaryDirectory() as folder,
        Emulator(knobs=Knobs(delivery_allocation=None)) as bus,
    ):
        home = prepare(Path(folder), bus)
        os.environ["AIRFLOW_HOME"] = str(home.folder)  # of the Airflow that waits for commands
        for day in range(1, rounds + 1):
            bus.publish("/event/Bench__e", some_events())
            for dag, times in took.items():
                times.append(seconds(home, dag, day))
    return took


def main(rounds: str = "") -> int:
    took = {dag: statistics.median(times) for dag, times in measure(int(rounds or ROUNDS)).items()}
    peer = took.pop("rows")
    print(f"`airflow dags test` on {EVENTS:,} events or rows, median of {rounds or ROUNDS}")
    print(f"  SparkSubmitOperator, reads and writes  {peer:5.1f} s")
    for table_format, ours in took.items():
        print(
            f"  fetch, land, commit: {table_format:17} {ours:5.1f} s  {ours - peer:+.1f} s "
            f"(limit: {MORE_SECONDS[table_format]:+.1f} s)"
        )
    return 0 if all(ours <= peer + MORE_SECONDS[name] for name, ours in took.items()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
