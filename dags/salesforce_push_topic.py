"""Records that a PushTopic tells of, into a lake table: over Salesforce's Streaming API.

The PushTopic `Accounts` has to exist in the org. Everything else is as in `salesforce_orders`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))

with DAG(
    "salesforce_push_topic",
    # Salesforce keeps PushTopic events for 24 hours only.
    schedule=timedelta(minutes=15),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsToSparkOperator(
        task_id="land_accounts",
        topic="/topic/Accounts",
        table=LAKE,
        idle_seconds=2,
        driver_memory="1g",
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
