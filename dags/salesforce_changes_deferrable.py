"""Land record changes within a minute: one run always waits in the triggerer.

Use it for one topic or a few. The waiting run holds no worker slot; when an event comes, it fetches
all pending ones, and the next run starts. Three failed runs in a row pause the DAG, because the
next one would not wait either.
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
        # The other examples land these changes too, so this DAG has its own folder.
        table=f"{LAKE}/changes_deferrable",
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
    wait >> land
