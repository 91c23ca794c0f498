"""A deployment for a test: an emulated Salesforce, an Airflow and a lake.

The emulator runs in this process, Airflow's commands in their own.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.harness.airflow_home import AirflowHome, DagTest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Deploy = Callable[..., AbstractContextManager["Deployment"]]

DEFINITIONS = Path(__file__).parent / "definitions"
ORDERS = "/event/Order__e"
SALES = "/event/Sales__chn"
ACCOUNTS = "/data/AccountChangeEvent"
CONTACTS = "/data/ContactChangeEvent"


@dataclass(slots=True, kw_only=True)
class Deployment:
    """Deployment that a DAG runs in, and the tables that it leaves."""

    bus: Emulator
    airflow: AirflowHome
    folder: Path
    runs: int = 0

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def set(self, **environment: str) -> None:
        """Environment variables for the processes started from now on."""
        self.airflow.environment.update(environment)

    def run(self, dag_id: str) -> DagTest:
        """The DAG's next run, a day after the one before."""
        return self.airflow.test_dag(dag_id, self.next_date())

    def next_date(self) -> str:
        self.runs += 1
        return f"2026-02-{self.runs:02}"

    def publish(self, first: int, count: int) -> list[str]:
        """Orders numbered from `first`; their replay ids in hex."""
        records = [
            {"Order_Number__c": f"A-{number}", "Amount__c": float(number)}
            for number in range(first, first + count)
        ]
        return [replay_id.hex() for replay_id in self.bus.publish(ORDERS, records)]

    def position(self, consumer: str, topic: str = ORDERS) -> dict[str, Any] | None:
        """The position in its Variable."""
        text = self.airflow.variable(f"sfevents.{consumer}.{topic.strip('/').replace('/', '.')}")
        return None if text is None else json.loads(text)

    def keep_lineage(self) -> None:
        """Let OpenLineage's listener write its events to a file."""
        file = {"type": "file", "log_file_path": str(self._lineage), "append": True}
        self.set(AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(file))

    def lineage(self) -> list[dict[str, Any]]:
        """Read the events of OpenLineage, oldest first."""
        return [json.loads(line) for line in self._lineage.read_text().splitlines()]

    @property
    def _lineage(self) -> Path:
        return self.folder / "lineage.jsonl"

    def tries(self, run: DagTest, dag_id: str) -> dict[str, int]:
        """Number of tries of each task."""
        rows = self.airflow._query(
            "SELECT task_id, try_number FROM task_instance WHERE dag_id = ? AND run_id = ?",
            dag_id,
            run.run_id,
        )
        return dict(rows)

    def asset_extras(self, asset: str) -> list[dict[str, Any]]:
        """Read the extras of an asset's events, oldest first."""
        return self.airflow.asset_extras(asset)


@pytest.fixture(scope="module")
def deploy(
    tmp_path_factory: pytest.TempPathFactory,
    repository: Path,
    airflow_database_file: Path,
    spark_environment: dict[str, str],
) -> Deploy:
    """Makes a deployment with these files as its DAGs."""

    @contextmanager
    def deployed(*dags: str, sample: bool = True, **knobs: Any) -> Iterator[Deployment]:
        folder = tmp_path_factory.mktemp("deployment")
        airflow = AirflowHome.create(folder / "airflow", airflow_database_file)
        for dag in dags:
            source = DEFINITIONS / dag
            shutil.copy(source if source.exists() else repository / "dags" / dag, airflow.dags)
        with Emulator(sample=sample, knobs=Knobs(half_close_seconds=0.02, **knobs)) as bus:
            deployment = Deployment(bus=bus, airflow=airflow, folder=folder)
            deployment.set(**spark_environment, SFEVENTS_LAKE=str(deployment.lake))
            deployment.set(PYTHONPATH=str(DEFINITIONS), TEST_FOLDER=str(folder))
            deployment.set(STAND_IN_FILE=str(DEFINITIONS / "stand_in.py"))
            airflow.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
            airflow.connect("sfevents_default", bus.connection())
            try:
                yield deployment
            finally:
                airflow.end_processes()
            bus.check()

    return deployed


def rows(deployment: Deployment, table: str) -> list[dict[str, Any]]:
    """Rows of a table below the lake, by batch and ordinal."""
    import pyarrow.dataset as ds

    folder = deployment.lake / table
    if not folder.exists():
        return []
    landed = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return sorted(landed.to_pylist(), key=lambda row: (row["batch_number"], row["batch_ordinal"]))
