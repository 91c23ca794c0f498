"""Secrets of every login, searched for in all that waits, landings and failures leave behind."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.hooks.connection import AUTHS
from tests.dags.conftest import DEFINITIONS, Deployment
from tests.harness.airflow_home import AirflowHome
from tests.harness.leaks import Secrets, rows_of
from tests.integration.pubsub.test_login import encrypted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
]

PLANTED = {
    "consumer_secret": "C0NSUMER-s3cret+&<x>%41",
    "refresh_token": "5Aep861-R3FRESH+&<x>%41",
    "password": "P4SSWORD-of-user+&<x>%41",
    "security_token": "S3CURITYtokenOfTheUser01",
}
WRONG = "WR0NG-but-still-a-secret+&<x>%41"
PLACES = {"table variable", "table xcom", "staging", "log", "command lines", "locals"}


@dataclass(frozen=True, slots=True)
class World:
    """A deployment with known secrets."""

    here: Deployment
    secrets: Secrets

    def run(self, dag_id: str) -> str:
        """Run a DAG; its log at DEBUG."""
        done = self.here.airflow.command(
            "dags", "test", dag_id, self.here.next_date(), timeout_seconds=600
        )
        assert "[debug" in done.stdout, done.stdout
        (self.here.folder / f"{dag_id}.log").write_text(own_lines(done.stdout))
        return str(done.stdout)

    def states(self, dag_id: str) -> dict[str, str]:
        rows = self.here.airflow._query(
            "SELECT task_id, state FROM task_instance WHERE dag_id = ?", dag_id
        )
        return {str(task): str(state) for task, state in rows}

    def hits(self) -> dict[str, set[str]]:
        """Secrets found, by kind of place."""
        found: dict[str, set[str]] = {}
        for place, text in self._texts():
            for name in self.secrets.found_in(text):
                found.setdefault(place, set()).add(name)
        return found

    def searched(self) -> set[str]:
        """Kinds of places that hold anything at all."""
        return {place for place, text in self._texts() if text}

    def _texts(self) -> Iterator[tuple[str, str]]:
        folder = self.here.folder
        for table, row in rows_of(folder / "airflow" / "airflow.db"):
            yield f"table {table}", row
        for path in folder.rglob("*"):
            if path.is_file():
                inside = path.relative_to(folder)
                yield kind_of(inside.parts), path.read_bytes().decode(errors="replace")


def kind_of(parts: tuple[str, ...]) -> str:
    """Name for the kind of place that a file of the deployment's folder is."""
    if parts[0] == "airflow":
        return "staging" if parts[1] == "sfevents" else "airflow"
    return "log" if parts[0].endswith(".log") else parts[0]


def own_lines(log: str) -> str:
    """Leave out lines of Airflow's supervisor, which logs at DEBUG what it has to mask."""
    return "".join(line for line in log.splitlines(keepends=True) if "MaskSecret(" not in line)


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    repository: Path,
    airflow_database_file: Path,
    spark_environment: dict[str, str],
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secrets")
    airflow = AirflowHome.create(folder / "airflow", airflow_database_file)
    shutil.copy(DEFINITIONS / "planted_secrets.py", airflow.dags)
    with Emulator(folder=org_with(PLANTED, tmp_path_factory.mktemp("org")), **SAMPLE) as bus:
        here = Deployment(bus=bus, airflow=airflow, folder=folder)
        here.set(
            **spark_environment,
            AIRFLOW__LOGGING__LOGGING_LEVEL="DEBUG",
            PYTHONPATH=str(repository),
            STAND_IN_FILE=str(DEFINITIONS / "stand_in.py"),
            TEST_FOLDER=str(folder),
            COMMAND_LINES=str(folder / "command lines"),
        )
        (folder / "command lines").mkdir()
        airflow.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
        secrets = Secrets({**PLANTED, "wrong": WRONG})
        for auth in AUTHS:
            secrets |= connect(airflow, auth, bus.connection(auth))
        here.publish(1, 5)
        yield World(here, secrets)
        airflow.end_processes()


SAMPLE: dict[str, Any] = {"sample": True, "knobs": Knobs(half_close_seconds=0.02)}


def org_with(planted: dict[str, str], folder: Path) -> Path:
    """Folder of an emulator; its org has these secrets."""
    with Emulator(folder=folder, **SAMPLE):
        pass
    file = folder / "orgs.json"
    kept = json.loads(file.read_text())
    for org in kept["orgs"]:
        org.update(planted)
    file.write_text(json.dumps(kept))
    return folder


def connect(airflow: AirflowHome, auth: str, connection: dict[str, Any]) -> Secrets:
    """Give Airflow the connection of a login, and one that Salesforce refuses; their secrets."""
    extra = connection["extra"]
    if auth == "jwt_bearer":
        extra = {**extra, "private_key": encrypted(extra["private_key"])}
        extra["private_key_passphrase"] = "open"
    right = {**connection, "extra": extra}
    airflow.connect(auth, right)
    wrong: dict[str, dict[str, Any]] = {
        "client_credentials": {"password": WRONG},
        "soap": {"password": WRONG},
        "password": {"extra": {**extra, "user_password": WRONG}},
        "refresh_token": {"extra": {**extra, "refresh_token": WRONG}},
        "session": {"extra": {**extra, "session_token": WRONG}},
        "jwt_bearer": {"extra": {**extra, "private_key_passphrase": WRONG}},
    }
    airflow.connect(f"wrong_{auth}", {**right, **wrong[auth]})
    keys = ("private_key", "session_token")
    return Secrets({f"{auth} {key}": extra[key] for key in keys if key in extra})


@pytest.fixture(scope="module")
def hits(world: World) -> dict[str, set[str]]:
    """Secrets found after waits, landings and failures."""
    log = world.run("works")
    assert set(world.states("works").values()) == {"success"}, log
    log = world.run("fails")
    assert set(world.states("fails").values()) == {"failed"}, log
    assert PLACES | {"table trigger", "lake"} <= world.searched()
    return world.hits()


def test_no_secret_is_left_behind(hits: dict[str, set[str]]) -> None:
    """Database, XCom, Variables, staging, lake, logs, command lines and locals hold none."""
    assert hits == {}


def test_leaks_are_found(world: World, hits: dict[str, set[str]]) -> None:
    """The same search finds a secret that an operator leaks, in every kind of place."""
    world.run("leaks")
    found = world.hits()
    new = {place for place, names in found.items() if "password" in names - hits.get(place, set())}
    assert new >= PLACES
