from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from airflow.models.asset import AssetModel
from airflow.models.xcom import XComModel
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.state import AssetScope, get_state_backend
from airflow.utils.session import create_session
from sqlalchemy import select
from upath import UPath

from airflow_provider_sfevents.batches.position.position_writes import write_origin
from airflow_provider_sfevents.commands.asset_rows import AssetRow
from airflow_provider_sfevents.commands.xcom_rows import XComRows
from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.staging.area import StagingArea
from tests.integration.commands.registered import register, run_once
from tests.unit.positions.building import ORG, TOPIC, begun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.airflow_home import AirflowHome
    from tests.integration.commands.conftest import Hands

pytestmark = pytest.mark.airflow

KEY = "sfevents.position.event.Order__e"

ACTIVE = "00D000000000009AAA"
"""An org whose topic's asset a DAG names."""

TASKS = ("variable", "asset", "xcom")

DEFINITION = """
    import pendulum
    from airflow.sdk import dag, get_current_context, task

    from airflow_provider_sfevents.positions import stores
    from airflow_provider_sfevents.positions.asset import topic_asset
    from airflow_provider_sfevents.positions.store_choice import open_store
    from tests.unit.positions.building import ORG, TOPIC, begun

    def look(spec):
        context = get_current_context()
        store = open_store(spec, org_id=ORG, consumer="load", topic=TOPIC, context=context)
        position = stores.read(store)
        if position is None:
            stores.write(store, begun())
        return position and position.start.to_text()

    @dag(schedule=None, start_date=pendulum.datetime(2026, 1, 1))
    def positions():
        for spec in ("variable", "asset", "xcom"):
            task(task_id=spec, inlets=[topic_asset(ORG, TOPIC)])(look)(spec)

    positions()
"""

COMMANDS = """
    import sys
    from airflow.__main__ import main

    for line in sys.stdin.read().splitlines():
        sys.argv = ["airflow", *line.split()]
        main()
"""


@pytest.mark.full
def test_a_task_reads_what_a_hand_has_set_and_misses_what_it_has_forgotten(
    airflow_home: AirflowHome, repository: Path
) -> None:
    """In a real Airflow, a run reads a position set by command, and none after `forget`."""
    airflow_home.environment["PYTHONPATH"] = str(repository)
    (airflow_home.dags / "positions.py").write_text(dedent(DEFINITION))
    folder = StagingArea(UPath(airflow_home.folder / "sfevents")).topic(ORG, "load", TOPIC)
    write_origin(folder, begun())

    def give(*commands: str) -> str:
        lines = [
            f"sfevents {command} -y --position-store {store}"
            for command in commands
            for store in TASKS
        ]
        given = subprocess.run(
            [sys.executable, "-c", dedent(COMMANDS)],
            env=airflow_home.environment,
            cwd=airflow_home.folder,
            input="\n".join(lines),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        assert given.returncode == 0, given.stdout
        return given.stdout

    def start(day: int) -> dict[str, str | None]:
        run = airflow_home.test_dag("positions", f"2026-01-0{day}")
        return {task: airflow_home.xcom("positions", run.run_id, task) for task in TASKS}

    assert start(1) == dict.fromkeys(TASKS)
    said = give(f"position set load {TOPIC} 00000000000000ff0000")
    assert said.count("The next run fetches batch") == len(TASKS), said
    assert start(2) == dict.fromkeys(TASKS, "00000000000000ff0000")
    said = give(f"position forget load {TOPIC}")
    assert said.count("The next run is a first run") == len(TASKS), said
    assert start(3) == dict.fromkeys(TASKS)


def test_a_position_in_an_assets_state(hands: Hands) -> None:
    """A position in an asset's state is found without a login, set, listed and deleted."""
    with DAG(hands.consumer, schedule=None) as dag:
        EmptyOperator(task_id="land", inlets=[topic_asset(ACTIVE, TOPIC)])
    register(dag)
    position = replace(begun(), consumer=hands.consumer, org_id=ACTIVE)
    row = AssetRow(ACTIVE, hands.consumer, TOPIC)
    row.set(position.to_json())
    assert not row.replace("another one", "lost")
    assert row.replace(position.to_json(), position.to_json())
    here = ("--position-store", "asset")
    assert "The next run fetches batch e1-1" in hands.do("position", "show", *here).words
    assert not hands.do("position", "set", "00000000000000ff0000", "-y", *here).refused
    listed = json.loads(hands.airflow("sfevents", "position", "show", "-o", "json").said)
    assert [
        (row["replay_id"], row["kept_in"]) for row in listed if row["consumer"] == hands.consumer
    ] == [
        (
            "00000000000000ff0000",
            f"State 'sfevents.{hands.consumer}' of asset salesforce://{ACTIVE}/event/Order__e",
        )
    ]
    assert not hands.do("position", "forget", "-y", *here).refused
    assert row.get() is None


def test_an_old_position_is_named_beside_that_of_another_org(hands: Hands) -> None:
    """`--fail-older-than` looks at each position of a consumer that reads a topic of two orgs."""
    orgs = (ACTIVE, "00D00000000000BAAA")
    with DAG(hands.consumer, schedule=None) as dag:
        EmptyOperator(task_id="land", inlets=[topic_asset(org, TOPIC) for org in orgs])
    register(dag)
    old = begun(consumer=hands.consumer, batch_number=1, replay_id="0a")
    for org in orgs:
        AssetRow(org, hands.consumer, TOPIC).set(replace(old, org_id=org).to_json())
    words = ("sfevents", "position", "show", hands.consumer, "--fail-older-than", "48")
    assert hands.airflow(*words).refused.count(f"{hands.consumer} {TOPIC} (") == len(orgs)


def test_a_state_that_lies_elsewhere_hides_no_other(hands: Hands) -> None:
    """A state that another backend stores elsewhere is listed as such, beside the others."""
    with DAG(hands.consumer, schedule=None) as dag:
        EmptyOperator(task_id="land", inlets=[topic_asset(ACTIVE, TOPIC)])
    register(dag)
    with create_session() as session:
        asset_id = session.scalar(
            select(AssetModel.id).where(AssetModel.name == topic_asset(ACTIVE, TOPIC).name)
        )
        get_state_backend().set(
            AssetScope(asset_id=asset_id),
            f"sfevents.{hands.consumer}",
            json.dumps({"ref": hands.consumer}),
            session=session,
        )
    refused = hands.do("position", "show", "--position-store", "asset").refused
    assert "`[workers] state_store_backend`" in refused
    rows = json.loads(hands.airflow("sfevents", "position", "show", "-o", "json").said)
    assert [
        hands.consumer in row["problem"] for row in rows if hands.consumer in row["kept_in"]
    ] == [True]
    AssetRow(ACTIVE, hands.consumer, TOPIC).delete()


def test_a_position_in_xcoms(hands: Hands) -> None:
    """The newest record counts, a new one survives a retry, and `forget` removes all."""
    with DAG(hands.consumer, schedule=None) as dag:
        EmptyOperator(task_id="land")
    register(dag)
    position = replace(begun(), consumer=hands.consumer)
    write_origin(hands.folder, position)
    at = {"dag_id": hands.consumer, "task_id": "land"}
    for day in (1, 2):
        run_once(hands.consumer, f"run-{day}", day)
    XComModel.set(KEY, position.to_json(), **at, run_id="run-1", serialize=False)
    here = ("--position-store", "xcom")
    assert "The next run fetches batch e1-1" in hands.do("position", "show", *here).words
    assert not hands.do("position", "set", "00000000000000ff0000", "-y", *here).refused
    XComModel.clear(**at, run_id="run-2")  # as Airflow does when the task is retried
    record = XComRows(ORG, hands.consumer, TOPIC).get()
    assert Position.from_json(record or "", "XCom").start.to_text() == "00000000000000ff0000"
    assert not hands.do("position", "forget", "-y", *here).refused
    assert XComRows(ORG, hands.consumer, TOPIC).get() is None


def test_the_state_of_an_asset_that_is_not_active_is_out_of_reach(hands: Hands) -> None:
    """A position in the state of an inactive asset cannot be set; the error has the remedy."""
    write_origin(hands.folder, replace(begun(), consumer=hands.consumer))
    refused = hands.do("position", "set", "latest", "-y", "--position-store", "asset")
    assert "Airflow knows no such active asset" in refused.refused


def test_an_xcom_that_no_run_has_left_cannot_be_set(hands: Hands) -> None:
    """Without a run's XCom a position cannot be set; the error has the remedy."""
    write_origin(hands.folder, replace(begun(), consumer=hands.consumer))
    refused = hands.do("position", "set", "latest", "-y", "--position-store", "xcom")
    assert "`initial_replay`" in refused.refused


def test_a_position_that_moves_meanwhile_is_left_alone(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If a run commits before the lease is taken, nothing is changed."""
    position = replace(begun(), consumer=hands.consumer)
    moved = replace(position, batch_number=1, replay_id="0a")
    (tmp_path / "moving_store_of_a_test.py").write_text(
        "class Moving:\n"
        f"    answers = [{position.to_json()!r}, {moved.to_json()!r}]\n"
        "    def get(self, key):\n"
        "        return self.answers.pop(0)\n"
        "    def set(self, key, value):\n"
        "        raise AssertionError(value)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    write_origin(hands.folder, position)
    store = ("--position-store", "moving_store_of_a_test.Moving")
    refused = hands.do("position", "set", "latest", "-y", *store)
    assert "was moved by another process just now. Nothing was changed" in refused.refused


def test_a_users_own_store_is_reached_by_its_dotted_path(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A user's own store that can be imported is set and emptied like Airflow's."""
    (tmp_path / "own_store_of_a_test.py").write_text("KEPT = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    write_origin(hands.folder, replace(begun(), consumer=hands.consumer))
    store = ("--position-store", "own_store_of_a_test.KEPT")
    assert not hands.do("position", "set", "latest", "-y", *store).refused
    from own_store_of_a_test import KEPT  # type: ignore[import-not-found]

    assert Position.from_json(KEPT[hands.key], "the store").start.to_text() == "latest"
    assert not hands.do("position", "forget", "-y", *store).refused
    assert json.dumps(KEPT) == "{}"
