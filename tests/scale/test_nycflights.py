from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.harness.airflow_home import AirflowHome
from tests.scale import flights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.full,
    pytest.mark.soak,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(1200),
]

BATCH_EVENTS = 30_000
BATCHES = [30_000, 30_000, 20_789]

DAG = """
from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

with DAG("flights", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1):
    SfEventsToSparkOperator(
        task_id="land", topic={topic!r}, table={table!r}, max_events={max_events}, idle_seconds=10
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """Result of all runs together.

    :param results: result of each run's task.
    :param deliveries: events that the service counted.
    :param sql: `flights` is the data set, `landed` the table with the data set's columns, `rows`
        the whole table.
    """

    results: list[dict[str, Any]]
    position: dict[str, Any]
    deliveries: int
    sql: duckdb.DuckDBPyConnection

    def both(self, query: str) -> tuple[list[Any], list[Any]]:
        """Rows of a query on the table and on the data set; it names what it reads from `{}`."""
        return (
            self.sql.execute(query.format("landed")).fetchall(),
            self.sql.execute(query.format("flights")).fetchall(),
        )

    def columns(self, where: str = "true") -> list[str]:
        """Columns of the data set, as DuckDB understands its file."""
        found = self.sql.execute(
            f"SELECT column_name FROM (DESCRIBE flights) WHERE {where}"  # noqa: S608
        )
        return [name for (name,) in found.fetchall()]


@pytest.fixture(scope="module")
def landed(
    tmp_path_factory: pytest.TempPathFactory,
    airflow_database_file: Path,
    spark_environment: dict[str, str],
) -> Iterator[Landed]:
    """Publish all departures at once, and land them by as many runs as the bound needs."""
    folder = tmp_path_factory.mktemp("flights")
    home = AirflowHome.create(folder / "airflow", airflow_database_file)
    home.environment.update(spark_environment)
    home.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
    with Emulator(knobs=Knobs(delivery_allocation=None)) as bus:
        topic = flights.publish(bus)
        home.connect("sfevents_default", bus.connection())
        (home.dags / "flights.py").write_text(
            DAG.format(topic=topic, table=str(folder / "lake"), max_events=BATCH_EVENTS)
        )
        try:
            results = [_run(home, f"2026-01-{1 + number:02}") for number in range(len(BATCHES))]
        finally:
            home.end_processes()
        bus.check()
        deliveries = bus.deliveries()
    with duckdb.connect() as sql:
        _open_data_set(sql, folder)
        _open_table(sql, folder / "lake" / flights.EVENT)
        yield Landed(
            results=results,
            position=json.loads(home.variable("sfevents.flights.event.Flight__e") or "{}"),
            deliveries=deliveries,
            sql=sql,
        )


def _run(home: AirflowHome, logical_date: str) -> dict[str, Any]:
    """One run of the DAG; its task's result."""
    run = home.test_dag("flights", logical_date, timeout_seconds=600)
    assert run.state == "success", run.log[-4000:]
    return dict(home.xcom("flights", run.run_id, "land"))


def _open_data_set(sql: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """The file as DuckDB reads it: nothing of what we published by has a say in it."""
    with zipfile.ZipFile(flights.archive()) as zipped:
        file = zipped.extract("flights.csv", folder)
    sql.read_csv(file, na_values="NA", sample_size=-1).create("flights")
    sql.execute(f"DELETE FROM flights WHERE month > {flights.MONTHS}")  # noqa: S608


def _open_table(sql: duckdb.DuckDBPyConnection, table: Path) -> None:
    sql.read_parquet(f"{table}/**/*.parquet", hive_partitioning=True).create("rows")
    names = [
        name for (name,) in sql.execute("SELECT column_name FROM (DESCRIBE flights)").fetchall()
    ]
    columns = ", ".join(f"{flights.field_name(name)} AS {name}" for name in names)
    sql.execute(f"CREATE VIEW landed AS SELECT {columns} FROM rows")  # noqa: S608


def test_the_batches_are_bounded_and_the_last_one_caught_up(landed: Landed) -> None:
    """Every run takes at most `max_events`, and the run that finds no more ends by silence."""
    assert [result["events"] for result in landed.results] == BATCHES
    ended_by = [result["ended_by"] for result in landed.results]
    assert ended_by == ["max_events", "max_events", "idle_seconds"]
    assert [result["quarantined"] for result in landed.results] == [0, 0, 0]


def test_every_event_lands_exactly_once(landed: Landed) -> None:
    """Rows, distinct ids and the position's count equal the number of departures."""
    counts = landed.sql.execute(
        "SELECT count(*), count(DISTINCT event_id), count(DISTINCT replay_id), count(DISTINCT "
        "batch_id) FROM rows"
    ).fetchall()
    assert counts == [(flights.DEPARTURES, flights.DEPARTURES, flights.DEPARTURES, len(BATCHES))]
    assert (landed.position["events_total"], landed.position["batch_number"]) == (
        flights.DEPARTURES,
        len(BATCHES),
    )


def test_no_event_is_paid_for_twice(landed: Landed) -> None:
    """The service delivered as many events as there are rows."""
    assert landed.deliveries == flights.DEPARTURES


def test_the_position_is_the_last_event(landed: Landed) -> None:
    """Each batch begins after the one before, and the position stands at the end of the last."""
    ends = landed.sql.execute(
        "SELECT batch_number, min(replay_id), max(replay_id) FROM rows GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert [batch_number for batch_number, _, _ in ends] == [1, 2, 3]
    assert all(last < first for (_, _, last), (_, first, _) in pairwise(ends))
    assert landed.position["replay_id"] == ends[-1][2]


@pytest.mark.parametrize("column", ["carrier", "month", "origin"])
def test_totals_by_group_are_those_of_the_data_set(landed: Landed, column: str) -> None:
    """Departures, distance and delay of each carrier, month and airport."""
    found, expected = landed.both(
        f"SELECT {column}, count(*), count(dep_time), sum(distance), sum(arr_delay) "  # noqa: S608
        "FROM {} GROUP BY 1 ORDER BY 1"
    )
    assert len(expected) > 2
    assert found == expected


def test_the_sum_of_every_numeric_column_is_that_of_the_data_set(landed: Landed) -> None:
    """Numbers arrive as numbers, and what is missing counts for nothing."""
    columns = landed.columns("column_type IN ('BIGINT', 'DOUBLE')")
    assert len(columns) == 14
    sums = ", ".join(f"sum({column})" for column in columns)
    found, expected = landed.both(f"SELECT {sums} FROM {{}}")  # noqa: S608
    assert found == expected


def test_missing_values_are_null(landed: Landed) -> None:
    """Every column has as many nulls as the data set has missing values in it."""
    nulls = ", ".join(f"count(*) - count({column})" for column in landed.columns())
    found, expected = landed.both(f"SELECT {nulls} FROM {{}}")  # noqa: S608
    assert found == expected
    assert sum(expected[0]) == 14_601


def test_every_record_is_in_the_table_as_it_is_in_the_file(landed: Landed) -> None:
    """The table has each record of the file, with all columns, and no other record."""
    for these, those in (("landed", "flights"), ("flights", "landed")):
        query = f"SELECT count(*) FROM (SELECT * FROM {these} EXCEPT ALL SELECT * FROM {those})"  # noqa: S608
        assert landed.sql.execute(query).fetchall() == [(0,)]
