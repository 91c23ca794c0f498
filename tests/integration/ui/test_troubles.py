"""Seeded faults: the overview names the cause and what mends it, and that mends it."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.positions.watch_error import WatchError, watch_error_key
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.integration.commands.registered import register, run_once, states, write_task
from tests.unit.positions.building import ORG, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.ui.conftest import Page

pytestmark = [
    pytest.mark.airflow,
    # Airflow's API imports a module of Starlette that warns of httpx.
    pytest.mark.filterwarnings("ignore:Using `httpx` with:UserWarning"),
    # Airflow's commands on DAGs would like to draw them.
    pytest.mark.filterwarnings("ignore:Could not import graphviz"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededFault:
    """A fault that a test seeds.

    :param seed: makes it.
    :param cause: words of the cause that the page shows.
    :param mend: does what the page offers; gets the command line that it shows.
    """

    seed: Callable[[Page], None]
    cause: str
    mend: Callable[[Page, str], None]


def ago(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


def set_dag(page: Page, **values: Any) -> None:
    """Change the DAG's row in Airflow's database, as its processor does."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == page.dag).values(**values))


def type_command(command: str) -> None:
    """Run a command line of Airflow that the page shows."""
    from airflow.cli.cli_parser import get_parser

    program, *words = shlex.split(command)
    assert program == "airflow"
    args = get_parser().parse_args(words)
    args.func(args)


def with_dag(page: Page, *, hours: float, **more: Any) -> None:
    """Keep a position whose last batch is that old, and whose DAG can be run."""
    with DAG(page.dag, schedule=None) as dag:
        EmptyOperator(task_id="load")
    register(dag)
    set_dag(page, is_paused=False)
    run_once(page.dag, "run-1")
    page.keep(dag=page.dag, committed=ago(hours), **more)


def paused(page: Page) -> None:
    with_dag(page, hours=1)
    set_dag(page, is_paused=True)


def broken_file(page: Page) -> None:
    with_dag(page, hours=1)
    set_dag(page, has_import_errors=True)


def gone(page: Page) -> None:
    with_dag(page, hours=1)
    set_dag(page, is_stale=True)


def failing(page: Page) -> None:
    with_dag(page, hours=2)
    for run in ("r1", "r2"):
        write_task(page.dag, run, "failed", ago(1))


def silent(page: Page) -> None:
    with_dag(page, hours=2)
    write_task(page.dag, "r1", "running", None, heartbeat=ago(1))


def mended_by_scheduler(page: Page, command: str) -> None:
    """End the task, as a scheduler that is alive does."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    assert command == "airflow jobs check --job-type SchedulerJob"
    with create_session() as session:
        of_dag = update(TaskInstance).where(TaskInstance.dag_id == page.dag)
        session.execute(of_dag.values(state="failed", end_date=ago(0.5)))


def moved_to_earliest(page: Page, command: str) -> None:
    assert command == f"airflow sfevents position set {page.consumer} {TOPIC} earliest"
    said = page.post("/api/position/move", "op", page.seen(start="earliest"))
    assert said.status_code == 200


def lost(page: Page) -> None:
    window = LossWindow(after="0a", start="earliest", at=ago(1).isoformat(), why="it expired")
    with_dag(page, hours=1, losses=(window,))


def acknowledged(page: Page, command: str) -> None:
    with TemporaryDirectory() as staging:
        type_command(f"{command} --yes --staging file://{staging}")
    assert page.rows("op")[0]["loss_windows"] == 0


def landed_again(page: Page, command: str) -> None:
    assert command == "", "the button at the batch does it"
    asked = page.seen(batch_id=page.position().batch_id)
    assert page.post("/api/batch/land_again", "op", asked).status_code == 200
    assert states(page.dag, "run-1")["run-1"] == "queued"


def typed(page: Page, command: str) -> None:
    type_command(command)


def corrected_file(page: Page, command: str) -> None:
    assert command == "airflow dags list-import-errors"
    set_dag(page, has_import_errors=False)


def brought_back(page: Page, command: str) -> None:
    assert command == f"airflow sfevents position forget {page.consumer} {TOPIC}"
    set_dag(page, is_stale=False)


FAULTS = {
    "paused": SeededFault(seed=paused, cause="is paused, so no run fetches", mend=typed),
    "broken file": SeededFault(seed=broken_file, cause="cannot be imported", mend=corrected_file),
    "gone": SeededFault(seed=gone, cause="is not in Airflow any more", mend=brought_back),
    "failing": SeededFault(seed=failing, cause="has failed 2 times", mend=typed),
    "silent": SeededFault(seed=silent, cause="no heartbeat for 60 min", mend=mended_by_scheduler),
    "idle": SeededFault(
        seed=lambda page: with_dag(page, hours=50), cause="No run has committed since", mend=typed
    ),
    "expired": SeededFault(
        seed=lambda page: with_dag(page, hours=80),
        cause="Salesforce keeps events for 72 hours",
        mend=moved_to_earliest,
    ),
    "loss": SeededFault(seed=lost, cause="A loss window was recorded", mend=acknowledged),
    "quarantine": SeededFault(
        seed=lambda page: with_dag(page, hours=1, quarantined=2),
        cause="2 events of batch 1 did not decode",
        mend=landed_again,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_mended(page: Page, name: str) -> None:
    """The overview has the cause first, what the page offers mends it, the next run is green."""
    fault = FAULTS[name]
    fault.seed(page)
    [row] = page.rows("op")
    first = row["troubles"][0]
    assert fault.cause in first["cause"]
    assert first["remedy"]
    wanted = {"org_id": ORG, "consumer": page.consumer, "topic": TOPIC}
    assert page.get("/api/position", "op", **wanted).json()["troubles"] == row["troubles"]

    fault.mend(page, first["command"])
    page.next_run()

    [row] = page.rows("op")
    assert [one["cause"] for one in row["troubles"] if "loss window" not in one["cause"]] == []


def test_a_healthy_position_has_no_trouble(page: Page) -> None:
    """A position that waits for its next run, or whose task is at work, is in order."""
    with_dag(page, hours=3)
    [row] = page.rows("op")
    assert row["troubles"] == []
    write_task(page.dag, "r1", "running", None, heartbeat=ago(0))
    [row] = page.rows("op")
    assert row["troubles"] == []


def test_a_record_that_is_no_position_is_mended_by_the_command(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The problem names the command that forgets it; nothing else knows the org here."""
    from airflow.models.variable import Variable

    Variable.set(variable_key(page.consumer, TOPIC), "rubbish")

    def problems() -> list[str]:
        found = page.get("/api/positions", "op").json()["problems"]
        return [one["problem"] for one in found if page.consumer in one["kept_in"]]

    [problem] = problems()
    assert "airflow sfevents position forget <consumer> <topic>" in problem
    command = f"airflow sfevents position forget {page.consumer} {TOPIC}"
    with pytest.raises(SystemExit, match="Name the org's connection: `--conn-id`"):
        type_command(command)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with Emulator() as bus:
        monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(bus.connection()))
        type_command(f"{command} --conn-id sfevents_default")
    assert problems() == []
    with_dag(page, hours=0)
    assert len(page.rows("op")) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """A watcher of the page's consumer, and another provider's, in Airflow's database."""

    page: Page
    asset: int
    triggers: tuple[int, ...]

    def shown(self, role: str = "viewer") -> list[dict[str, Any]]:
        found = self.page.get("/api/positions", role).json()["watchers"]
        return [one for one in found if one["watcher"] == self.page.consumer]

    def alive(self, role: str = "viewer") -> list[bool]:
        return [bool(one["alive"]) for one in self.shown(role)]


@pytest.fixture
def watching(page: Page) -> Iterator[Watching]:
    from airflow.models.asset import AssetModel, AssetWatcherModel
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    ours = "airflow_provider_sfevents.triggers.sfevents.SfEventsWatchTrigger"
    kwargs = {"consumer": page.consumer, "topic": TOPIC}
    with create_session() as session:
        triggers = [Trigger(classpath=one, kwargs=kwargs) for one in (ours, "other.Trigger")]
        session.add_all(triggers)
        asset = AssetModel(name=f"salesforce://{page.consumer}", uri=page.consumer)
        session.add(asset)
        session.flush()
        ids = tuple(one.id for one in triggers)
        for one in ids:
            watcher = AssetWatcherModel(name=page.consumer, asset_id=asset.id, trigger_id=one)
            session.add(watcher)
        asset_id = asset.id
    yield Watching(page=page, asset=asset_id, triggers=ids)
    with create_session() as session:
        session.execute(delete(AssetWatcherModel).where(AssetWatcherModel.asset_id == asset_id))
        session.delete(session.get(AssetModel, asset_id))
        for one in ids:
            session.delete(session.get(Trigger, one))


def test_waits_without_a_triggerer_are_mended_by_a_triggerer(
    page: Page, watching: Watching
) -> None:
    """A watcher that no living triggerer runs is silent until one has it; others do not count."""
    from airflow.jobs.job import Job
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session

    def waits() -> tuple[int, int]:
        found = page.get("/api/positions", "viewer").json()["waits"]
        return int(found["alive"]), int(found["silent"])

    alive, silent = waits()
    assert (watching.alive(), watching.alive("")) == ([False], [])
    with create_session() as session:
        job = Job(job_type="TriggererJob", state="running", latest_heartbeat=datetime.now(UTC))
        session.add(job)
        session.flush()
        session.get(Trigger, watching.triggers[0]).triggerer_id = job.id
        job_id = job.id
    assert (waits(), watching.alive()) == ((alive + 1, silent - 1), [True])
    with create_session() as session:
        session.delete(session.get(Job, job_id))


def test_a_watcher_is_shown_with_its_last_error(page: Page, watching: Watching) -> None:
    """The error is read by consumer and topic of the watcher, and is no position."""
    from airflow.models.variable import Variable

    [before] = watching.shown()
    assert before["error"] is None
    key, error = watch_error_key(page.consumer, TOPIC), WatchError(message="No topic.", at="2026")
    Variable.set(key, error.to_json())
    [found] = watching.shown()
    assert found["error"] == {"message": "No topic.", "at": "2026", "ended_at": ""}
    assert page.consumer not in str(page.get("/api/positions", "op").json()["problems"])
    Variable.delete(key)
