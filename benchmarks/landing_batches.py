"""Seconds, Spark jobs and calls to Java of landing small batches, beside one statement.

1. A batch of 1,000 events of one type, against one MERGE (Delta, Iceberg) or one write (Parquet) of
   the same rows, already decoded, in the same session. Both go into tables that grow with each
   round.
2. A batch of as many events of 40 types, against the batch of one type.

`python -m benchmarks.landing_batches delta iceberg` measures these formats only.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import MEMORY_COMMAND_NAME

from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.tables import naming
from benchmarks.landing import EVENT_TYPE, seconds, session, settings, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

EVENTS, TYPES = 1_000, 40
WARM_UP, ROUNDS = 2, 5
TYPES_ROUNDS = 2
TIMES_STATEMENT, MORE_SECONDS = 2.0, 0.5
MOST_JOBS = {naming.PARQUET: 4, naming.DELTA: 8, naming.ICEBERG: 8}
TIMES_ONE_TYPE = {naming.PARQUET: 6.0, naming.DELTA: 15.0, naming.ICEBERG: 12.0}
MOST_CALLS = 300

CREATE = (
    "CREATE TABLE {target} USING {using} PARTITIONED BY (event_date) "
    "AS SELECT * FROM new_rows WHERE false"
)
MERGE = (
    "MERGE INTO {target} t USING new_rows s "
    "ON t.batch_id = s.batch_id AND t.batch_ordinal = s.batch_ordinal "
    "AND t.event_date IN ({dates}) "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one landing or one statement.

    :param calls: to Java, that Python waited for; PySpark tells Java in a thread of its own which
        objects it no longer needs.
    """

    seconds: float
    jobs: int
    calls: int


class Meter:
    """Counts the Spark jobs of a session's application, and this process's calls to its Java."""

    def __init__(self, spark: SparkSession) -> None:
        self._store: Any = spark._jsparkSession.sparkContext().statusStore()  # noqa: SLF001
        self._client: Any = spark._jvm._gateway_client  # noqa: SLF001

    def measure(self, act: Callable[[], object]) -> Cost:
        jobs = self._jobs()
        with self._counted() as calls:
            took = seconds(act)
        return Cost(took, self._jobs() - jobs, len(calls))

    def _jobs(self) -> int:
        return int(self._store.jobsList(None).size())

    @contextmanager
    def _counted(self) -> Iterator[list[None]]:
        calls: list[None] = []
        send = self._client.send_command

        def counted(command: str, *arguments: Any, **options: Any) -> Any:
            if not command.startswith(MEMORY_COMMAND_NAME):
                calls.append(None)
            return send(command, *arguments, **options)

        self._client.send_command = counted
        try:
            yield calls
        finally:
            del self._client.send_command


def median(costs: list[Cost]) -> Cost:
    """Median of each figure by itself."""
    return Cost(
        statistics.median(one.seconds for one in costs),
        int(statistics.median(one.jobs for one in costs)),
        int(statistics.median(one.calls for one in costs)),
    )


class Statement:
    """The hand-written peer: one statement brings decoded rows into a table of its own.

    :param root: URL of the folder, or of the warehouse, for its table.
    """

    def __init__(self, spark: SparkSession, root: Path, table_format: str) -> None:
        self._spark = spark
        self._root = root
        self._format = table_format
        self._made = False
        if table_format == naming.ICEBERG:
            spark.conf.set("spark.sql.catalog.peer", "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set("spark.sql.catalog.peer.type", "hadoop")
            spark.conf.set("spark.sql.catalog.peer.warehouse", str(root))

    def prepare(self, decoded: Path) -> None:
        """Make the table on the first call, and name the rows that the next statement brings in."""
        rows = self._spark.read.parquet(str(decoded))
        rows.createOrReplaceTempView("new_rows")
        dates = rows.select("event_date").distinct().collect()
        self._dates = ", ".join(f"DATE'{row[0]}'" for row in dates)
        if not self._made and self._format != naming.PARQUET:
            self._spark.sql(CREATE.format(target=self._target, using=self._format))
        self._made = True

    def run(self) -> None:
        if self._format == naming.PARQUET:
            rows = self._spark.table("new_rows")
            rows.write.mode("append").partitionBy("event_date").parquet(str(self._root))
        else:
            self._spark.sql(MERGE.format(target=self._target, dates=self._dates))

    @property
    def _target(self) -> str:
        if self._format == naming.ICEBERG:
            return "peer.lake.departures"
        return f"delta.`{self._root}/departures`"


def measure(spark: SparkSession, folder: Path, table_format: str) -> tuple[Cost, Cost, Cost]:
    """Median costs of the statement, of landing one type, and of landing many types."""
    meter = Meter(spark)
    statement = Statement(spark, folder / "peer", table_format)
    lake = folder / "lake" / table_format
    took: dict[str, list[Cost]] = {"statement": [], "one": [], "many": []}

    def landing(manifest: str, root: Path, form: str) -> Callable[[], object]:
        order = LandingOptions(manifest_url=manifest, table=str(root), table_format=form)
        return lambda: land(spark, order)

    for number in range(1, WARM_UP + ROUNDS + 1):
        manifest = stage(folder / "staging" / str(number), EVENTS, number)
        decoded = folder / "decoded" / str(number)
        land(spark, LandingOptions(manifest_url=manifest, table=str(decoded)))
        statement.prepare(decoded / EVENT_TYPE)
        took["statement"].append(meter.measure(statement.run))
        took["one"].append(meter.measure(landing(manifest, lake / "one", table_format)))
    for number in range(1, TYPES_ROUNDS + 2):
        manifest = stage(folder / "types" / str(number), EVENTS, number, TYPES)
        took["many"].append(meter.measure(landing(manifest, lake / "many", table_format)))
    return (
        median(took["statement"][WARM_UP:]),
        median(took["one"][WARM_UP:]),
        median(took["many"][1:]),  # the first round makes the tables
    )


def report(table_format: str, statement: Cost, one: Cost, many: Cost) -> bool:
    """Print the figures with their limits; True: all are within them."""
    limit = statement.seconds * TIMES_STATEMENT + MORE_SECONDS
    most_types = TIMES_ONE_TYPE[table_format]
    rows = (
        (
            f"landing {EVENTS:,} events of one type",
            f"{one.seconds:6.2f} s",
            f"limit {limit:.2f} s: {TIMES_STATEMENT} x one statement's {statement.seconds:.2f} s "
            f"+ {MORE_SECONDS} s",
            one.seconds <= limit,
        ),
        (
            "its Spark jobs",
            f"{one.jobs:6d}",
            f"limit {MOST_JOBS[table_format]}; the statement has {statement.jobs}",
            one.jobs <= MOST_JOBS[table_format],
        ),
        (
            "its calls to Java",
            f"{one.calls:6d}",
            f"limit {MOST_CALLS}; the statement has {statement.calls}",
            one.calls <= MOST_CALLS,
        ),
        (
            f"landing as many of {TYPES} types",
            f"{many.seconds:6.2f} s",
            f"{many.seconds / one.seconds:.1f} x one type; limit {most_types} x; {many.jobs} jobs",
            many.seconds <= one.seconds * most_types,
        ),
    )
    print(f"  {table_format}")
    for name, figure, beside, within in rows:
        print(f"    {name:36} {figure:>10}  {beside}{'' if within else '  NOT within'}")
    return all(within for *_, within in rows)


def main(formats: list[str]) -> int:
    """Measure each format in a process of its own: a JVM has the jars of its first session."""
    if len(formats) != 1:
        print(f"landing batches of {EVENTS:,} events, warm, local[2]; medians of {ROUNDS}")
        command = [sys.executable, "-m", "benchmarks.landing_batches"]
        ended = [subprocess.run([*command, one], check=False) for one in formats or list(MOST_JOBS)]
        return max(one.returncode for one in ended)
    [table_format] = formats
    with tempfile.TemporaryDirectory() as made, session(settings(table_format)) as spark:
        return 0 if report(table_format, *measure(spark, Path(made), table_format)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
