"""The DAG `salesforce_monitor`: alerts on positions whose own DAG is paused."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.positions.building import TOPIC, begun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.airflow_home import AirflowHome

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300)]

DAG = "salesforce_monitor"


def test_each_alert_is_told_once_while_the_dag_is_paused(
    airflow_home: AirflowHome, repository: Path
) -> None:
    """Loss window, expiry and failures are events of their assets, and the task succeeds."""
    shutil.copy(repository / "dags" / f"{DAG}.py", airflow_home.dags)
    at = (datetime.now(UTC) - timedelta(hours=65)).isoformat()
    window = LossWindow(after="0a", start="earliest", at=datetime.now(UTC).isoformat(), why="why")
    old = begun(batch_number=1, replay_id="0a", committed_at=at, last_event_at=at, losses=(window,))
    airflow_home.set_variable(variable_key(old.consumer, TOPIC), old.to_json())
    airflow_home.set_variable("sfevents.broken.x", "rubbish")
    _pause(airflow_home, "load")

    first = airflow_home.test_dag(DAG, "2026-02-01")
    _fail(airflow_home, "load", "fetch", times=3)
    second = airflow_home.test_dag(DAG, "2026-02-02")
    third = airflow_home.test_dag(DAG, "2026-02-03")

    results = [airflow_home.xcom(DAG, run.run_id, "look") for run in (first, second, third)]
    assert [[one["kind"] for one in result["told"]] for result in results] == [
        ["loss_window", "expiry_ahead"],
        ["repeated_failures"],
        [],
    ], first.log + second.log
    assert [len(result["alerts"]) for result in results] == [2, 3, 3]
    assert [one["checked"] for one in results[0]["unreadable"]] == [
        "position Variable 'sfevents.broken.x'"
    ]
    for kind in ("loss_window", "expiry_ahead", "repeated_failures"):
        [extra] = airflow_home.asset_extras(f"sfevents_{kind}")
        assert (extra["dag"], extra["consumer"], extra["topic"]) == ("load", "load", TOPIC)


def _pause(home: AirflowHome, dag: str) -> None:
    """Write a DAG that is paused."""
    with sqlite3.connect(home.folder / "airflow.db") as database:
        database.execute("INSERT OR IGNORE INTO dag_bundle (name) VALUES ('paused')")
        _insert(database, "dag", dag_id=dag, bundle_name="paused", is_paused=1, fileloc="x.py")


def _fail(home: AirflowHome, dag: str, task: str, times: int) -> None:
    """Write runs of the DAG whose task failed."""
    with sqlite3.connect(home.folder / "airflow.db") as database:
        for number in range(times):
            of_run = {"dag_id": dag, "run_id": f"failed-{number}"}
            _insert(
                database, "dag_run", **of_run, state="failed", run_type="manual", clear_number=0
            )
            _insert(database, "task_instance", **of_run, task_id=task, map_index=-1, state="failed")


def _insert(database: sqlite3.Connection, table: str, **values: object) -> None:
    """Insert a row; columns that must not be empty and are not given get a plain value."""
    columns = database.execute(f"PRAGMA table_info({table})").fetchall()
    filled = dict(values)
    for _, name, kind, required, default, _ in columns:
        if required and default is None and name not in filled and name != "id":
            filled[name] = 0 if kind.startswith(("INTEGER", "BOOLEAN")) else "2026-01-01 00:00:00"
        elif required and name == "id" and kind != "INTEGER" and name not in filled:
            filled[name] = f"{len(filled)}{values.get('run_id')}".encode().hex()[-32:].zfill(32)
    names = ", ".join(filled)
    marks = ", ".join("?" for _ in filled)
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - names of columns
    database.execute(statement, [*filled.values()])
