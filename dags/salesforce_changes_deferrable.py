"""Record changes as they come: one run always waits, in the triggerer, and its end begins the next.

For when changes should land within a minute, from one topic or a few. The waiting run holds no worker slot; when something comes, it
fetches all that is pending. Three runs that fail in a row pause the DAG, since the next one would not wait either.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
TOPIC = "/data/ChangeEvents"

with DAG(
    "salesforce_changes_deferrable",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    doc_md=__doc__,
    tags=["sfevents"],
):
    wait = SfEventsSensor(
        task_id="wait_for_changes",
        topic=TOPIC,
        deferrable=True,
        timeout=timedelta(days=1),
        soft_fail=True,
    )
    land = SfEventsToSparkOperator(
        task_id="land_changes",
        topic=TOPIC,
        # The other examples read these changes too, and each consumer lands an event once: a root of its own.
        table=f"{LAKE}/changes_deferrable",
        idle_seconds=5,
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
    wait >> land
