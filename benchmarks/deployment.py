"""Airflow's services and an emulator for the length of a benchmark, with DAGs of its own."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from typing_extensions import override

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.harness.airflow_home import AirflowHome, make_database
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import QUICK, WITH_TRIGGERER, AirflowServices
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.harness.airflow_runs import Run

ROOT = Path(__file__).parents[1]
STAND_IN = ROOT / "tests" / "airflow" / "definitions"
"""Folder of a `spark-submit` without Spark, and of a job for it that leaves a receipt."""

WATCHED = """
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger
from benchmarks.floors import Told


def watched(name, trigger):
    asset = Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])
    return DAG(name, schedule=[asset], max_active_runs=1)
"""
"""Begins a DAG file: DAGs that a trigger starts."""


class AsShipped(AirflowServices):
    """With Airflow's own intervals, not those of the tests, where times are what is measured."""

    @override
    def _settings(self) -> dict[str, str]:
        return {name: value for name, value in super()._settings().items() if name not in QUICK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A running deployment.

    :param folder: folder for a benchmark's files, deleted afterwards.
    """

    folder: Path
    bus: Emulator
    airflow: AirflowServices

    @classmethod
    @contextmanager
    def running(
        cls,
        prepare: Callable[[Path, Emulator], str],
        *,
        services: type[AirflowServices] = AsShipped,
        spark: bool = True,
        connections: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
    ) -> Iterator[Deployment]:
        """Run a deployment for a block.

        :param prepare: defines topics, and returns the text of the DAG file.
        :param spark: with Spark; otherwise with the stand-in.
        :param connections: more connections, by id.
        """
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # or else nothing is ended
        with (
            tempfile.TemporaryDirectory() as name,
            Emulator(knobs=Knobs(delivery_allocation=None)) as bus,
        ):
            folder = Path(name)
            (folder / "database").mkdir()
            home = AirflowHome.create(folder / "airflow", make_database(folder / "database"))
            home.environment.update(environment(), PYTHONPATH=str(ROOT))
            if not spark:
                home.environment.update(
                    PATH=f"{STAND_IN / 'bin'}{os.pathsep}{home.environment['PATH']}",
                    TEST_FOLDER=str(folder),
                    STAND_IN_FILE=str(STAND_IN / "stand_in.py"),
                )
            home.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
            home.connect("sfevents_default", bus.connection())
            for conn_id, connection in connections.items():
                home.connect(conn_id, connection)
            (home.dags / "bench.py").write_text(prepare(folder, bus))
            with services.running(home, WITH_TRIGGERER) as airflow:
                yield cls(folder=folder, bus=bus, airflow=airflow)

    def watched(self, topic: str) -> None:
        """Wait until a stream subscribes to a topic."""
        wait_until(
            lambda: any(one.open and one.topic == topic for one in self.bus.subscriptions),
            f"{topic} is watched",
        )

    def next_run(self, dag_id: str, cause: Callable[[], object]) -> Run:
        """The run that something causes."""
        before = len(self.airflow.all_runs(dag_id))
        cause()
        runs = wait_until(lambda: self.airflow.all_runs(dag_id)[before:], f"a run of {dag_id}")
        run: Run = runs[0]
        return run

    def tell(self) -> None:
        """Have the DAG's `Told` fire, see `floors`."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(told(self.folder)))

    def told_listens(self) -> None:
        wait_until(told(self.folder).exists, "the trigger listens to its socket")

    def times(self, run: Run) -> tuple[datetime, datetime]:
        """Times at which a run's starting event was stored and the run was queued."""
        [event] = self.airflow.request("GET", f"{run.path}/upstreamAssetEvents")["asset_events"]
        queued = self.airflow.request("GET", run.path)["queued_at"]
        return datetime.fromisoformat(event["timestamp"]), datetime.fromisoformat(queued)


def told(folder: Path) -> Path:
    """Path of the socket of `floors.Told`."""
    return folder / "told"
