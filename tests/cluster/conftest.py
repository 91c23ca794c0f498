"""A cluster, an Airflow beside it, an emulated Salesforce before it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.cluster.machines import Cluster, ExecutorPython
from tests.harness.airflow_home import AirflowHome, DagTest
from tests.harness.jars import jars

__all__ = ["jars"]

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFINITIONS = Path(__file__).parent / "definitions"
ORDERS = "/event/Order__e"


@dataclass(slots=True, kw_only=True)
class Deployment:
    """Deployment that a DAG runs in, and the tables that it leaves."""

    bus: Emulator
    airflow: AirflowHome
    folder: Path
    published: list[str] = field(default_factory=list)
    runs: int = 0

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def staging(self) -> Path:
        return self.folder / "staging"

    def connect_spark(self, master: str) -> None:
        self.airflow.connect("spark_default", {"conn_type": "spark", "host": master})

    def spark(self, python: ExecutorPython, **conf: str) -> None:
        """Settings for the jobs started from now on."""
        said = {
            "spark.pyspark.python": python.binary,
            # Each task has a process of its own, which can be held.
            "spark.python.worker.reuse": "false",
            **conf,
        }
        self.airflow.environment["TEST_CONF"] = json.dumps(said)

    def publish(self, count: int) -> None:
        """Publish events, which the next run fetches."""
        first = len(self.published)
        records = [
            {"Order_Number__c": f"A-{number}", "Amount__c": float(number)}
            for number in range(first, first + count)
        ]
        ids = self.bus.publish(ORDERS, records)
        self.published.extend(replay_id.hex() for replay_id in ids)
        self.airflow.environment["TEST_EVENTS"] = str(count)

    def run(self, dag_id: str) -> DagTest:
        """The DAG's next run, a day after the one before."""
        # Executors start cold on this machine: several Java processes, beside those of other tests.
        return self.airflow.test_dag(dag_id, self.next_date(), timeout_seconds=480)

    def next_date(self) -> str:
        self.runs += 1
        return f"2026-02-{self.runs:02}"

    def position(self, dag_id: str) -> dict[str, Any] | None:
        text = self.airflow.variable(f"sfevents.{dag_id}.event.Order__e")
        return None if text is None else json.loads(text)

    def landed(self) -> list[tuple[str, str]]:
        """Replay id and number of every row in the lake, in the order of delivery."""
        import duckdb

        files = f"{self.lake}/Order__e/**/*.parquet"
        with duckdb.connect() as connection:
            found = connection.sql(
                f"select replay_id, Order_Number__c from read_parquet('{files}') "  # noqa: S608
                "order by batch_number, batch_ordinal"
            )
            return [(str(replay_id), str(number)) for replay_id, number in found.fetchall()]

    def expected(self) -> list[tuple[str, str]]:
        return [(replay_id, f"A-{number}") for number, replay_id in enumerate(self.published)]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> ExecutorPython:
    """The Python that the executors use."""
    return ExecutorPython.make(tmp_path_factory.mktemp("executors") / "env")


@pytest.fixture(scope="session")
def _one_cluster(
    tmp_path_factory: pytest.TempPathFactory, python: ExecutorPython
) -> Iterator[Cluster]:
    with Cluster(folder=tmp_path_factory.mktemp("cluster"), python=python) as cluster:
        yield cluster


@pytest.fixture
def cluster(_one_cluster: Cluster) -> Iterator[Cluster]:
    """A master and two workers, whatever the test before did to them."""
    _one_cluster.ensure_workers(2)
    yield _one_cluster
    _one_cluster.python.let_go()


@pytest.fixture
def here(
    tmp_path: Path, airflow_database_file: Path, spark_environment: dict[str, str]
) -> Iterator[Deployment]:
    """An Airflow and an emulated Salesforce of the test's own."""
    airflow = AirflowHome.create(tmp_path / "airflow", airflow_database_file)
    shutil.copy(DEFINITIONS / "lands.py", airflow.dags)
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.02)) as bus:
        here = Deployment(bus=bus, airflow=airflow, folder=tmp_path)
        spark = {name: text for name, text in spark_environment.items() if name != "PYSPARK_PYTHON"}
        airflow.environment.update(
            spark,
            SFEVENTS_LAKE=str(here.lake),
            TEST_STAGING=f"file://{here.staging}",
            TEST_CONF="{}",
            TEST_EVENTS="1",
        )
        airflow.connect("sfevents_default", bus.connection())
        yield here
        airflow.end_processes()
        bus.check()
