"""A consumer of change events whose last batch holds back a transaction, and the runs that mend it.

Its DAG and the one that reads entity snapshots are in Airflow, which sees the staging area.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.positions.record import advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt, Run
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.positions.building import batch_after, begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.area import StagingArea
    from tests.harness.airflow_home import AirflowHome

CONSUMER = "changes"
SNAPSHOTS = "snapshots"
TOPIC = "/data/AccountChangeEvent"

_DAGS = f"""
from airflow.sdk import DAG, Param
from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

tables = dict(current_state="/lake/records", table_format="delta")
with DAG({CONSUMER!r}, schedule=None, is_paused_upon_creation=False):
    SfEventsToSparkOperator(task_id="land", topic={TOPIC!r}, table="/lake/changes", **tables)
with DAG({SNAPSHOTS!r}, schedule=None, params={{"entities": Param([], type="array")}}):
    SfEventsEntitySnapshotOperator.partial(task_id="read", **tables).expand(entity=["Account"])
"""


def keep_changes(home: AirflowHome, area: StagingArea) -> None:
    """Write the DAGs, the position after one batch, and that batch's receipt."""
    (home.dags / "changes.py").write_text(_DAGS)
    now, by = datetime.now(UTC).isoformat(), Run(dag=CONSUMER, run="run_0", task="land")
    first = begun(consumer=CONSUMER, topic=TOPIC, owner=f"{CONSUMER}.land")
    manifest = batch_after(first, last_event_at=now)
    position = replace(advance(first, manifest, now, by), staging_id=area.staging_id())
    receipt = Receipt(
        batch_id=manifest.batch_id,
        events=manifest.events,
        tables={},
        quarantined=0,
        written_at=now,
        applied={"open_events": 2},
    )
    folder = area.topic(position.org_id, CONSUMER, TOPIC).batch(position.epoch, 1).folder
    durable_files.replace(folder / layout.RECEIPT, receipt.to_json().encode())
    home.set_variable(variable_key(CONSUMER, TOPIC), position.to_json())


def confs(home: AirflowHome, dag: str) -> list[dict[str, Any]]:
    """Return the confs of the runs of a DAG."""
    with sqlite3.connect(home.folder / "airflow.db") as database:
        rows = database.execute("SELECT conf FROM dag_run WHERE dag_id = ?", (dag,))
        return [json.loads(conf or "{}") for (conf,) in rows]
