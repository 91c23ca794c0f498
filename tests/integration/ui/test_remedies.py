"""Remedies of the page beside moves, or the commands for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, Param
from upath import UPath

from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import LossWindow, Receipt, Run
from airflow_provider_sfevents.staging.storage import durable_files
from tests.integration.commands.registered import register
from tests.integration.ui.dead_run import leave_lease
from tests.integration.ui.test_api import audited
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.ui.conftest import Page

pytestmark = [
    pytest.mark.airflow,
    # Airflow's API imports a module of Starlette that warns of httpx.
    pytest.mark.filterwarnings("ignore:Using `httpx` with:UserWarning"),
]

CHANGES = "/data/AccountChangeEvent"


def fetch_from(page: Page, folder: Path, topic: str = TOPIC, **more: Any) -> StagingArea:
    """Put the DAG that fetches into the database, and a position of its staging area."""
    with DAG(page.dag, schedule=None) as dag:
        SfEventsToSparkOperator(
            task_id="load", topic=topic, table="/lake/t", staging=f"file://{folder}", **more
        )
    register(dag)
    area = StagingArea(UPath(folder))
    keep(page, topic, area.staging_id())
    return area


def keep(page: Page, topic: str, staging_id: str) -> Position:
    from airflow.models.variable import Variable

    first = begun(consumer=page.consumer, topic=topic, owner=f"{page.dag}.load")
    now, by = datetime.now(UTC).isoformat(), Run(dag=page.dag, run="run-1", task="load")
    position = replace(
        advance(first, batch_after(first, last_event_at=now), now, by), staging_id=staging_id
    )
    Variable.set(variable_key(page.consumer, topic), position.to_json())
    return position


def remedies(page: Page, role: str, topic: str = TOPIC) -> dict[str, dict[str, Any]]:
    answer = page.get("/api/next_batch", role, org_id=ORG, consumer=page.consumer, topic=topic)
    assert answer.status_code == 200, answer.text
    return {one["name"].split()[0]: one for one in answer.json()["remedies"]}


def test_the_lease_of_a_dead_run_is_released(page: Page, tmp_path: Path) -> None:
    """The page names the holder; an editor of the DAG releases the lease, a viewer may not."""
    area = fetch_from(page, tmp_path)
    assert "release" not in remedies(page, "op")
    epoch = page.position().epoch
    leave_lease(area.topic(ORG, page.consumer, TOPIC).batch(epoch, 2).folder, page.dag)
    offered = remedies(page, "op")["release"]
    assert "run-2" in offered["says"][1]
    assert "(gone)" in offered["says"][1]
    assert remedies(page, "viewer") == {}
    path, asked = "/api/lease/release", page.seen()
    assert page.post(path, "viewer", asked).status_code == 403
    older = page.post(path, "op", {**asked, "expected_batch_number": 0})
    assert older.status_code == 409

    said = page.post(path, "op", asked).json()["said"]

    assert said == f"Batch {epoch}-2 is released. The next run takes it."
    assert "release" not in remedies(page, "op")
    [(event, user, _)] = audited(page.dag)
    assert (event, user) == ("sfevents.lease.release", "someone")


def test_a_living_run_keeps_its_lease_and_the_position(page: Page, tmp_path: Path) -> None:
    """While the holder is at work, neither release nor forget changes anything."""
    area = fetch_from(page, tmp_path)
    before = page.position()
    folder = area.topic(ORG, page.consumer, TOPIC).batch(before.epoch, 2)
    with folder.take_lease(LeaseHolder.here(Run(), "2026-01-01")) as lease:
        kept = page.post("/api/lease/release", "op", page.seen())
        assert (kept.status_code, "is at work" in kept.json()["detail"]) == (409, True)
        refused = page.post("/api/position/forget", "op", page.seen())
        assert (refused.status_code, "is held by" in refused.json()["detail"]) == (400, True)
        lease.check()
    assert page.position() == before
    assert audited(page.dag) == []


def test_loss_windows_are_acknowledged(page: Page, tmp_path: Path) -> None:
    """A new loss window is described and acknowledged; it stays recorded, and is no alert then."""
    from airflow.models.variable import Variable

    at = datetime.now(UTC).isoformat()
    lost = LossWindow(after="0a", start="earliest", at=at, why="the replay id had expired")
    fetch_from(page, tmp_path)
    losing = replace(page.position(), losses=(lost,))
    Variable.set(variable_key(page.consumer, TOPIC), losing.to_json())
    offered = remedies(page, "op")["acknowledge"]
    assert offered["label"] == "Acknowledge 1 loss window"
    assert offered["says"][0] == "Events after 0a may have been missed: the replay id had expired."
    path, asked = "/api/position/acknowledge", page.seen()
    assert page.post(path, "viewer", asked).status_code == 403

    said = page.post(path, "op", asked).json()["said"]

    assert said.endswith("are acknowledged.")
    assert "acknowledge" not in remedies(page, "op")
    assert (page.position().losses_acknowledged, page.position().losses) == (at, (lost,))
    assert [event for event, *_ in audited(page.dag)] == ["sfevents.position.acknowledge"]


def test_a_position_is_forgotten_on_purpose(page: Page, tmp_path: Path) -> None:
    """The position is gone, and the staging area says that it was on purpose."""
    area = fetch_from(page, tmp_path)
    epoch, path, asked = page.position().epoch, "/api/position/forget", page.seen()
    assert page.post(path, "viewer", asked).status_code == 403
    assert "first run" in remedies(page, "op")["forget"]["says"][1]

    said = page.post(path, "op", asked)

    assert "is forgotten" in said.json()["said"]
    assert page.rows("op") == []
    forgotten = area.topic(ORG, page.consumer, TOPIC).forgotten()
    assert forgotten is not None
    assert forgotten.epochs == [epoch]
    assert [event for event, *_ in audited(page.dag)] == ["sfevents.position.forget"]
    assert page.post(path, "op", asked).status_code == 404


def test_commands_stand_where_the_staging_area_is_not_seen(page: Page, tmp_path: Path) -> None:
    """Another staging area than the position's is not taken for it: the page shows commands.

    Looking writes nothing into a folder that is empty from here.
    """
    fetch_from(page, tmp_path)
    keep(page, TOPIC, "another")
    epoch = page.position().epoch
    offered = remedies(page, "op")
    where = f"{page.consumer} {TOPIC}"
    assert offered["forget"]["path"] == offered["release"]["path"] == ""
    assert "does not see the staging area" in offered["forget"]["says"][0]
    options = f"--staging file://{tmp_path}"
    assert (
        offered["release"]["command"]
        == f"airflow sfevents batches release {where} {epoch}-2 {options}"
    )
    assert offered["forget"]["command"] == f"airflow sfevents position forget {where} {options}"
    for path in ("/api/lease/release", "/api/position/forget"):
        assert page.post(path, "op", page.seen()).status_code == 400
    empty = tmp_path / "empty"
    empty.mkdir()
    fetch_from(page, empty)
    (empty / layout.AREA).unlink()
    assert "is empty" in remedies(page, "op")["forget"]["says"][0]
    assert list(empty.iterdir()) == []


def test_a_run_flushes_the_open_transaction(page: Page, tmp_path: Path) -> None:
    """A run of the DAG is offered while the last batch holds back a transaction, and started."""
    area = fetch_from(page, tmp_path, CHANGES, current_state="/lake/records", table_format="delta")
    asked = {**seen(page), "name": "flush"}
    assert "flush" not in remedies(page, "op", CHANGES)
    assert page.post("/api/run/start", "op", asked).status_code == 404
    write_receipt(area, page, open_events=2)
    assert "(2 events)" in remedies(page, "op", CHANGES)["flush"]["says"][0]
    assert page.post("/api/run/start", "viewer", asked).status_code == 403

    said = page.post("/api/run/start", "op", asked).json()["said"]

    assert said.endswith(f"of DAG {page.dag} is queued.")
    assert runs_of(page.dag) == [{}]
    assert [event for event, *_ in audited(page.dag)] == ["sfevents.flush"]


def test_a_dag_reads_an_object_again(page: Page, tmp_path: Path) -> None:
    """The DAG with the snapshot operator of the same tables gets the topic's object as its conf.

    Without such a DAG, the page shows the command.
    """
    state = f"/lake/{page.dag}"
    fetch_from(page, tmp_path, CHANGES, current_state=state, table_format="delta")
    offered = remedies(page, "op", CHANGES)["snapshot"]
    assert offered["path"] == ""
    assert offered["command"] == (
        'airflow dags trigger salesforce_records_snapshot --conf \'{"entities": ["Account"]}\''
    )
    other = f"{page.dag}_snapshot"
    with DAG(other, schedule=None, params={"entities": Param([], type="array")}) as dag:
        SfEventsEntitySnapshotOperator.partial(
            task_id="snapshot", current_state=state, table_format="delta"
        ).expand(entity=["Account"])
    register(dag)
    offered = remedies(page, "op", CHANGES)["snapshot"]
    assert offered["label"] == "Read Account again"
    asked = {**seen(page), "name": offered["name"]}
    assert page.post("/api/run/start", "viewer", asked).status_code == 403

    said = page.post("/api/run/start", "op", asked).json()["said"]

    assert said.endswith(f"of DAG {other} is queued.")
    again = page.post("/api/run/start", "op", asked)
    assert again.status_code == 409
    assert "queued or running already" in again.text
    assert runs_of(other) == [{"entities": ["Account"]}]


def seen(page: Page) -> dict[str, Any]:
    from airflow.models.variable import Variable

    position = Position.from_json(Variable.get(variable_key(page.consumer, CHANGES)), "here")
    return {
        "org_id": ORG,
        "consumer": page.consumer,
        "topic": CHANGES,
        "store": "variable",
        "expected_epoch": position.epoch,
        "expected_batch_number": position.batch_number,
    }


def write_receipt(area: StagingArea, page: Page, *, open_events: int) -> None:
    """Write the receipt of the batch that the position is at."""
    epoch = seen(page)["expected_epoch"]
    batch = area.topic(ORG, page.consumer, CHANGES).batch(epoch, 1)
    receipt = Receipt(
        batch_id=batch.batch_id,
        events=3,
        tables={},
        quarantined=0,
        written_at=datetime.now(UTC).isoformat(),
        applied={"open_events": open_events},
    )
    durable_files.replace(batch.folder / layout.RECEIPT, receipt.to_json().encode())


def runs_of(dag: str) -> list[dict[str, Any]]:
    """Return the confs of a DAG's runs in Airflow's database."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return [
            one or {} for one in session.scalars(select(DagRun.conf).where(DagRun.dag_id == dag))
        ]
