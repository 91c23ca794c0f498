"""A whole deployment: Airflow's services, an emulated Salesforce, and a stand-in for Spark.

Each of them is a process.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from airflow_provider_sfevents.emulator.cli.remote import EmulatorAddress, Remote
from scripts.processes import running
from tests.airflow.standalone import cluster_connection, spark_master
from tests.harness.airflow_home import AirflowHome
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import WITH_TRIGGERER, AirflowServices

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.harness.airflow_runs import Run

HERE = Path(__file__).parents[2]
"""The working tree of these tests; the environment may have the package of another one."""
DEFINITIONS = Path(__file__).parent / "definitions"
OWN_STORE = Path(__file__).parent.parent / "dags" / "definitions"
SOON = "2026-01-01T00:00:00+00:00"
"""As `until`: the first event is late enough for the DAGs `waiting` to wait no longer."""
DAGS = ("one_task.py", "chain.py", "mapped.py", "stores.py", "past.py", "waits.py", "watched.py")
WATCHED = (
    *("burst", "shared", "failing", "mistaken", "killed", "twice", "idle", "latest"),
    *("own", "asset", "queue", "dead_part_closed"),
    *("elsewhere", "not_writable"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Airflow, Salesforce and the folder where tables are."""

    airflow: AirflowServices
    bus: Remote
    folder: Path

    def topic(self, name: str) -> Topic:
        """A new platform event; a test of one's own topic disturbs no other."""
        fields = {"Number__c": "Number"}
        made = self.bus.post("definitions", kind="event", name=f"{name}__e", fields=fields)
        return Topic(here=self, name=made["topic"], published=[])

    def watched(self, name: str) -> Topic:
        """The topic `Watched_<name>__e`, which was there before the DAGs that watch it."""
        return Topic(here=self, name=f"/event/Watched_{name}__e", published=[])

    @contextmanager
    def switched_on(self, *dag_ids: str) -> Iterator[None]:
        """These DAGs are scheduled, and their topics watched, for the length of a block."""
        for dag_id in dag_ids:
            self.airflow.switch_on(dag_id)
        try:
            yield
        finally:
            for dag_id in dag_ids:
                self.airflow.switch_off(dag_id)

    def run(self, dag_id: str, topic: Topic, **conf: str) -> Run:
        """Start a run of the DAG on a topic."""
        return self.airflow.trigger(dag_id, {"topic": topic.name, **conf})

    def land(self, dag_id: str, topic: Topic, **conf: str) -> Run:
        """A run of the DAG that ends well."""
        run = self.run(dag_id, topic, **conf)
        run.wait("success")
        return run

    @contextmanager
    def holding(self, step: str) -> Iterator[Callable[[], int]]:
        """Hold tasks that reach a step of the package until the block ends; yield their count."""
        hold, held = self.folder / "hold" / step, self.folder / "held" / step
        held.mkdir(parents=True)
        hold.parent.mkdir(exist_ok=True)
        hold.touch()
        try:
            yield lambda: len(list(held.iterdir()))
        finally:
            hold.unlink()
            shutil.rmtree(held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic, what was published to it, and what became of that."""

    here: Deployment
    name: str
    published: list[str]

    @property
    def short(self) -> str:
        return self.name.rpartition("/")[2]

    def publish(self, count: int) -> None:
        ids = [str(uuid4()) for _ in range(count)]
        events = [{"Number__c": float(len(self.published) + n)} for n in range(count)]
        self.here.bus.post("events", topic=self.name, events=events, ids=ids)
        self.published.extend(ids)

    def order(self, *words: str) -> None:
        """Tell the next jobs what to do, see `definitions/stand_in.py`."""
        file = self.here.folder / "orders" / self.short
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{word}\n" for word in words))

    def let_go(self) -> None:
        """Let hanging jobs continue."""
        file = self.here.folder / "go" / self.short
        file.parent.mkdir(exist_ok=True)
        file.touch()

    def jobs(self) -> list[tuple[int, str]]:
        """Pid and batch of every job that was started, in order."""
        return [(int(pid), batch) for pid, batch in map(str.split, self._notes("jobs"))]

    def landings(self) -> list[str]:
        """Batch of every landing, in order."""
        return self._notes("landings")

    def landed(self, consumer: str) -> list[str]:
        """Event ids in the table, batch by batch."""
        batches = (self.here.folder / "table" / consumer / self.short).glob("*.json")
        ordered = sorted(batches, key=lambda file: int(file.stem.rpartition("-")[2]))
        return [one for file in ordered for one in json.loads(file.read_text())]

    def position(self, consumer: str) -> dict[str, Any]:
        key = f"sfevents.{consumer}.{self.name.strip('/').replace('/', '.')}"
        return dict(json.loads(self.here.airflow.home.variable(key) or "{}"))

    def batch_number(self, consumer: str) -> int | None:
        return self.position(consumer).get("batch_number")

    def deliveries(self) -> int:
        return int(self._look()["delivered"])

    def open_streams(self) -> int:
        return int(self._look()["subscribers"])

    def _look(self) -> dict[str, Any]:
        topics = self.here.bus.get("topics")["topics"]
        return next(dict(one) for one in topics if one["topic"] == self.name)

    def _notes(self, kind: str) -> list[str]:
        file = self.here.folder / kind / self.short
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(scope="session")
def here(
    tmp_path_factory: pytest.TempPathFactory,
    airflow_database_file: Path,
    spark_environment: dict[str, str],
) -> Iterator[Deployment]:
    """The one deployment of all tests here; each uses topics of its own."""
    folder = tmp_path_factory.mktemp("deployment")
    home = AirflowHome.create(folder / "airflow", airflow_database_file)
    for dag in DAGS:
        shutil.copy(DEFINITIONS / dag, home.dags)
    home.environment.update(
        spark_environment,
        PATH=f"{DEFINITIONS / 'bin'}{os.pathsep}{spark_environment['PATH']}",
        PYTHONPATH=os.pathsep.join(map(str, (DEFINITIONS / "site", OWN_STORE, HERE))),
        SPARK_SUBMIT=str(Path(sys.executable).with_name("spark-submit")),
        CLUSTER_SPARK_SUBMIT=str(DEFINITIONS / "cluster" / "spark-submit"),
        STAND_IN_FILE=str(DEFINITIONS / "stand_in.py"),
        STAND_IN_JAR=str(shutil.copy(f"{DEFINITIONS}/stand_in.py", f"{folder}/stand_in.jar")),
        TEST_FOLDER=str(folder),
        SFEVENTS_LAKE=str(folder / "lake"),
        WITH_SPARK=str(folder / "lake" / "orders_event_driven"),
    )
    with _salesforce(folder, home.environment) as bus, spark_master(folder / "drivers") as port:
        home.environment["TEST_ORG"] = bus.get("topics")["org_id"]
        org = bus.get("connection")
        home.connect("sfevents_default", org)
        home.connect("wrong_secret", {**org, "password": "not-the-secret"})
        home.connect("spark_default", {"conn_type": "spark", "host": "local[1]"})
        home.connect("spark_cluster", cluster_connection(port))
        with AirflowServices.running(home, WITH_TRIGGERER) as airflow:
            here = Deployment(airflow=airflow, bus=bus, folder=folder)
            for name in WATCHED:
                here.topic(f"Watched_{name}")
            yield here


@contextmanager
def _salesforce(folder: Path, environment: dict[str, str]) -> Iterator[Remote]:
    """An emulator as a process of its own."""
    state, log = folder / "emulator.json", folder / "emulator.log"
    command = [sys.executable, "-m", "airflow_provider_sfevents.emulator", "start"]
    command += ["--state", str(state), "--sample", "--keepalive", "1"]
    command += ["--knob", "half_close_seconds=0.02"]
    with running(command, log=log, environment=environment, folder=folder) as process:
        wait_until(lambda: state.exists() or process.poll() is not None, "the emulator starts")
        assert state.exists(), log.read_text()
        yield EmulatorAddress.read(state).remote()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each service's log after a failed test."""
    report = yield
    here = getattr(item, "funcargs", {}).get("here")
    if report.failed and isinstance(here, Deployment):
        for component in here.airflow.processes:
            text = here.airflow.log(component).read_text(errors="replace")
            report.sections.append((f"airflow {component}", text[-3000:]))
    return report
