"""The page's API, mounted as Airflow mounts it, on this process's database."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider_sfevents.commands.asset_rows import AssetRow
from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.positions.seen_allowance import SeenAllowance, allowance_key
from scripts import openapi_file
from tests.integration.commands.registered import register, run_once, states, write_task
from tests.unit.positions.building import ORG, TOPIC

if TYPE_CHECKING:
    from tests.integration.ui.conftest import Page

pytestmark = [
    pytest.mark.airflow,
    # Airflow's API imports a module of Starlette that warns of httpx.
    pytest.mark.filterwarnings("ignore:Using `httpx` with:UserWarning"),
]


def test_every_route_of_the_api_needs_a_login(page: Page) -> None:
    """Each route needs a token, a viewer changes nothing, and only the static files are public."""
    from airflow_provider_sfevents.ui.api import make_app

    app = make_app()
    routes = {route.path for route in app.routes if hasattr(route, "methods")}
    writes = {
        "/api/position/move",
        "/api/position/forget",
        "/api/position/acknowledge",
        "/api/lease/release",
        "/api/batch/land_again",
        "/api/run/start",
        "/api/org/check",
    }
    reads = {
        f"/api/{name}" for name in ("positions", "position", "batches", "next_batch", "metrics")
    }
    assert routes == reads | writes
    assert {route.path for route in app.routes} - routes == {"/static"}
    for path in writes:
        assert page.get(path, "admin").status_code == 405
        assert page.post(path, None, {}).status_code == 401
        for origin in ("", "https://evil.example", "null"):
            assert page.post(path, "admin", {}, origin).status_code == 403
    for path in routes - writes:
        assert page.get(path, None).status_code == 401
        assert page.get(path, None, org_id=ORG, consumer="c", topic=TOPIC).status_code == 401
    for path in ("/docs", "/redoc", "/openapi.json", "/static/../api.py", "/static/"):
        assert page.get(path, None).status_code == 404
    assert page.get("/static/page.js", None).status_code == 200

    page.keep(dag=page.dag, committed=datetime.now(UTC))
    before = page.position()
    whole = page.seen(start="earliest", batch_id=before.recent[-1].batch_id, conn_id="x", name="x")
    refused = {path: page.post(path, "viewer", whole).status_code for path in writes}
    assert refused == {**dict.fromkeys(writes, 403), "/api/run/start": 404}
    assert page.position() == before
    for path in reads:
        query = {"org_id": ORG, "consumer": page.consumer, "topic": TOPIC}
        assert page.get(path, "viewer", **query).status_code == 200


def test_the_openapi_file_is_the_api() -> None:
    """The file in the docs has the routes of today; `make docs-pages` makes it."""
    assert openapi_file.FILE.read_text() == openapi_file.text()


def test_the_plugin_loads_without_fastapi() -> None:
    """A process that only loads the plugin, such as a worker, does not import FastAPI for it."""
    code = (
        "import sys, airflow_provider_sfevents.ui.plugin; "
        "sys.exit('fastapi' in sys.modules or 'airflow_provider_sfevents.ui.api' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_position_is_shown_to_users_that_may_read_its_dag(page: Page) -> None:
    """A viewer of the DAG sees the position; a user without a role sees none, and cannot ask."""
    page.keep(dag=page.dag, committed=datetime.now(UTC) - timedelta(hours=1))
    wanted = {"org_id": ORG, "consumer": page.consumer, "topic": TOPIC}
    [row] = page.rows("viewer")
    assert (row["dag"], row["level"], row["state"]) == (page.dag, "fresh", "waiting")
    shown = page.get("/api/position", "viewer", **wanted).json()
    assert [batch["run"] for batch in shown["batches"]] == ["run-1"]
    assert shown["command"] == f"airflow sfevents position show {page.consumer} {TOPIC}"
    assert shown["tables"] == [{"table": "/lake/Order__e", "rows": 3}]
    [drift] = shown["drift"]
    assert (drift["batch_number"], drift["what"], drift["column"]) == (1, "added", "New__c")
    assert shown["setup"] == "https://acme.my.salesforce.com/lightning/setup/EventObjects/home"
    assert page.rows("") == []
    assert page.get("/api/position", "", **wanted).status_code == 404


def test_metrics_for_prometheus(page: Page) -> None:
    """Prometheus reads the metrics of a paused DAG's position, which the token's user may see."""
    committed = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    page.keep(dag=page.dag, committed=committed)
    for number in range(3):
        write_task(page.dag, f"failed-{number}", "failed", datetime.now(UTC))
    answer = page.get("/api/metrics", "viewer")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    labels = {"consumer": page.consumer, "topic": TOPIC}
    found = {
        one.name: one.value
        for family in text_string_to_metric_families(answer.text)
        for one in family.samples
        if one.labels == labels
    }
    assert found["sfevents_last_commit_time"] == committed.timestamp()
    assert found["sfevents_expiry_time"] == committed.timestamp() + 72 * 3600
    assert found["sfevents_failures_in_a_row"] == 3
    assert 'sfevents_waits{state="silent"} ' in answer.text
    assert page.consumer not in page.get("/api/metrics", "").text


def test_a_position_without_a_dag_needs_the_right_to_read_variables(page: Page) -> None:
    """A position that a command wrote, or of a DAG that is gone, is shown to operators only.

    The same holds for a Variable that is named like a position and is none.
    """
    from airflow.models.variable import Variable

    for dag in ("", "gone"):
        page.keep(dag=dag, committed=datetime.now(UTC))
        assert [len(page.rows(role)) for role in ("", "viewer", "op")] == [0, 0, 1]
    Variable.set(variable_key(page.consumer, TOPIC), "no position")
    for role, told in (("viewer", False), ("op", True)):
        problems = page.get("/api/positions", role).json()["problems"]
        assert any(page.consumer in one["kept_in"] for one in problems) == told


def test_failures_before_the_first_batch_are_counted(page: Page) -> None:
    """A position that a watcher began shows the failures of the DAG named like its consumer."""
    now = datetime.now(UTC)
    page.keep_begun((now - timedelta(hours=2)).isoformat())
    [row] = page.rows("op")
    assert (row["state"], row["dag"], row["troubles"]) == ("waiting", "", [])
    for task, operator in (("land", "SfEventsToSparkOperator"), ("other", "EmptyOperator")):
        ended = now - timedelta(hours=1)
        write_task(page.consumer, f"run-{task}", "failed", ended, task=task, operator=operator)
    [row] = page.rows("op")
    assert (row["state"], row["dag"], row["tasks"]["failed"]) == ("failed", page.consumer, 1)
    [trouble] = row["troubles"]
    assert trouble["cause"].startswith("Task land has failed 1 time since the position began")
    assert trouble["command"] == f"airflow dags trigger {page.consumer}"


def test_failures_since_the_last_commit_are_counted(page: Page) -> None:
    """A position shows how often its task has failed since the last commit, and what runs now."""
    now = datetime.now(UTC)
    page.keep(dag=page.dag, committed=now - timedelta(hours=2))
    states = {"before": ("failed", -3), "after": ("failed", -1), "other": ("success", -1)}
    for run, (state, hours) in states.items():
        write_task(page.dag, run, state, now + timedelta(hours=hours))
    [row] = page.rows("viewer")
    assert (row["state"], row["tasks"]["failed"], row["tasks"]["failed_run"]) == (
        "failed",
        1,
        "after",
    )
    write_task(page.dag, "now", "running", None)
    [row] = page.rows("viewer")
    assert (row["state"], row["tasks"]["running"]) == ("running", "now")


def audited(dag: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Event, user and extra of the audit log's entries about a DAG."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(select(Log).where(Log.dag_id == dag, Log.event.startswith("sfev")))
        return [(row.event, str(row.owner), json.loads(row.extra or "")) for row in rows]


def test_a_position_is_moved_by_an_operator(page: Page) -> None:
    """A move says before what it does, begins an epoch with a loss window, and is audited."""
    page.keep(dag=page.dag, committed=datetime.now(UTC))
    before = page.position()
    shown = page.get("/api/position", "op", org_id=ORG, consumer=page.consumer, topic=TOPIC).json()
    starts = {one["start"]: one["says"] for one in shown["moves"]}
    assert starts.keys() == {"earliest", "latest"}
    assert "every event is delivered again" in starts["earliest"][0]

    said = page.post("/api/position/move", "op", page.seen(start="earliest"))

    moved = page.position()
    assert said.json()["said"] == f"The position continues at 'earliest', in epoch {moved.epoch}."
    assert (moved.replay_id, moved.batch_number, moved.owner) == ("earliest", 0, before.owner)
    assert [one.after for one in moved.losses] == [before.replay_id]
    [(event, user, extra)] = audited(page.dag)
    assert (event, user) == ("sfevents.position.move", "someone")
    assert (extra["before"]["epoch"], extra["after"]["epoch"]) == (before.epoch, moved.epoch)
    shown = page.get("/api/position", "op", org_id=ORG, consumer=page.consumer, topic=TOPIC).json()
    [told] = shown["moved"]
    assert (told["user"], told["after"]["epoch"]) == ("someone", moved.epoch)


def test_of_two_users_at_once_one_moves_a_position(page: Page) -> None:
    """The other one is refused, or told that the database is busy."""
    page.keep(dag=page.dag, committed=datetime.now(UTC))
    for _ in range(5):
        bodies = [page.seen(start=start) for start in ("earliest", "latest")]
        with ThreadPoolExecutor(2) as pool:
            ask = partial(page.post, "/api/position/move", "op")
            done, refused = sorted(pool.map(ask, bodies), key=lambda answer: answer.status_code)
        assert (done.status_code, refused.status_code in {409, 503}) == (200, True)
        assert page.position().epoch in done.json()["said"]


@pytest.mark.parametrize("origin", ["", "https://evil.example", "null"])
def test_another_site_cannot_move_a_position(page: Page, origin: str) -> None:
    """A write that does not come from Airflow's own origin is refused."""
    page.keep(dag=page.dag, committed=datetime.now(UTC))
    before = page.position()
    asked = page.post("/api/position/move", "admin", page.seen(start="latest"), origin)
    assert asked.status_code == 403
    assert page.position() == before


def test_an_org_is_asked_by_users_that_may_read_the_connection(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are the doctor's, with the allowance's end and the topics without a position."""
    with Emulator(sample=True) as bus:
        monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(bus.connection()))
        page.keep(
            dag=page.dag, committed=datetime.now(UTC) - timedelta(hours=2), org=bus.org.org_id
        )
        path, asked = "/api/org/check", {"conn_id": "sfevents_default"}
        assert page.get("/api/positions", "op").json()["connections"] == ["sfevents_default"]
        assert page.get("/api/positions", "viewer").json()["connections"] == []
        assert page.post(path, "viewer", asked).status_code == 403
        assert page.post(path, "op", asked, "https://evil.example").status_code == 403

        answer = page.post(path, "op", asked).json()

        # A topic that a position of another org follows has a second line.
        lines = {one["checked"]: one for one in reversed(answer["findings"])}
        assert {one["status"] for one in lines.values()} <= {"ok", "not checked"}
        assert "it is not used up" in lines["allowance"]["seen"]
        assert "/event/Shipment__e" in lines["topics without a position"]["seen"]
        assert lines[f"topic {TOPIC}"]["status"] == "ok"
        assert answer["not_checked"] == ["versions", "executor", "staging", "Spark", "triggerer"]
        assert bus.deliveries() == 0
        missing = page.post(path, "op", {"conn_id": "missing"}).json()["findings"]
        assert (missing[0]["status"], "is not defined" in missing[0]["seen"]) == ("failed", True)


def test_an_error_anywhere_in_a_route_is_a_sentence(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that goes away after the positions were read is one, too."""
    from airflow_provider_sfevents.ui import api

    def gone(_: datetime) -> dict[str, int]:
        raise TransportError("Waits could not be read.")

    monkeypatch.setattr(api, "waits", gone)
    answer = page.get("/api/positions", "op")
    assert (answer.status_code, answer.json()) == (503, {"detail": "Waits could not be read."})


def test_the_allowance_that_a_task_has_seen(page: Page) -> None:
    """It is shown with its time to users who see a position of the org, and no org is asked."""
    from airflow.models.variable import Variable

    org = f"00D{page.consumer[-8:]:0>15}"
    page.keep(dag=page.dag, committed=datetime.now(UTC) - timedelta(hours=2), org=org)
    seen = SeenAllowance(name="DailyDeliveredPlatformEvents", most=50_000, left=1_000, at="2026")
    Variable.set(allowance_key(org), seen.to_json())

    def shown(role: str) -> list[dict[str, Any]]:
        found = page.get("/api/positions", role).json()["allowances"]
        return [one for one in found if one["org_id"] == org]

    [one] = shown("viewer")
    assert (one["at"], one["left"], one["status"]) == ("2026", 1_000, "warning")
    assert one["says"].startswith("The org has 1000 of 50000 deliveries left")
    assert "it is not used up" in one["says"]
    assert shown("") == []
    Variable.delete(allowance_key(org))


def test_a_move_needs_the_right_and_the_position_as_it_was_seen(page: Page) -> None:
    """Viewers may not move it; a position that has moved, or is at work, is left alone."""
    page.keep(dag=page.dag, committed=datetime.now(UTC))
    before, asked = page.position(), page.seen(start="latest")
    wanted = {"org_id": ORG, "consumer": page.consumer, "topic": TOPIC}
    shown = page.get("/api/position", "viewer", **wanted).json()
    assert (shown["moves"], shown["landings"]) == ([], {})
    path = "/api/position/move"
    assert page.post(path, "viewer", asked).status_code == 403
    assert page.post(path, "", asked).status_code == 404
    older = page.post(path, "op", {**asked, "expected_batch_number": 0})
    assert (older.status_code, "has moved meanwhile" in older.json()["detail"]) == (409, True)
    wrong = page.post(path, "op", {**asked, "start": "yesterday"})
    assert (wrong.status_code, "no replay id" in wrong.json()["detail"]) == (400, True)
    write_task(page.dag, "now", "running", None)
    busy = page.post(path, "op", asked)
    assert (busy.status_code, "is at work on this position" in busy.json()["detail"]) == (409, True)
    assert page.position() == before
    assert audited(page.dag) == []


def test_a_position_of_the_same_name_in_another_store(page: Page) -> None:
    """Both have a row, and an action reaches the one that was seen."""
    org = "00D000000000009AAA"  # no other test has assets of it
    page.keep(dag=page.dag, committed=datetime.now(UTC), org=org)
    before = page.position()
    with DAG(page.dag, schedule=None) as dag:
        EmptyOperator(task_id="wait", inlets=[topic_asset(org, TOPIC)])
    register(dag)
    row = AssetRow(org, page.consumer, TOPIC)
    row.set(before.to_json())
    try:
        assert {one["store"] for one in page.rows("op")} == {"asset", "variable"}
        asked = page.seen(start="latest", store="asset", org_id=org)
        moved = page.post("/api/position/move", "op", asked)
        assert (moved.status_code, page.position()) == (200, before), moved.text
        assert Position.from_json(row.get() or "", row.where).replay_id == "latest"
    finally:
        row.delete()


def test_a_batch_is_landed_again_by_its_task(page: Page) -> None:
    """The task that landed a batch is cleared by users who may clear it; the position stays."""
    with DAG(page.dag, schedule=None) as dag:
        EmptyOperator(task_id="load")
    register(dag)
    run_once(page.dag, "run-1")
    page.keep(dag=page.dag, committed=datetime.now(UTC))
    before = page.position()
    asked = page.seen(batch_id=before.batch_id)
    path = "/api/batch/land_again"
    assert page.post(path, "viewer", asked).status_code == 403
    unknown = page.post(path, "op", {**asked, "batch_id": "e1-99"})
    assert (unknown.status_code, "does not remember" in unknown.json()["detail"]) == (400, True)

    said = page.post(path, "op", asked)

    assert "1 task instance cleared." in said.json()["said"]
    assert states(page.dag, "run-1") == {"load": "None", "run-1": "queued"}
    assert page.position() == before
    [(event, _, extra)] = audited(page.dag)
    assert (event, extra["batch_id"]) == ("sfevents.batch.land_again", before.batch_id)
