"""Keep current-state tables of accounts, contacts and opportunities.

Every run lands the new change events in an event table, and applies them to one table for each
object. `salesforce_records_snapshot` fills a new table; docs/how-to/follow-an-org.md has the steps.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
# Paths of Delta's jars, separated by commas. Without them, Spark downloads the jars from Maven
# Central in the first run.
JARS = os.environ.get("SFEVENTS_LAKE_JARS")

with DAG(
    "salesforce_records",
    schedule=timedelta(minutes=15),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsToSparkOperator(
        task_id="follow",
        topic="/data/ChangeEvents",
        table=f"{LAKE}/record_events",
        current_state=f"{LAKE}/records",
        table_format="delta",
        jars=JARS,
        packages=None if JARS else "io.delta:delta-spark_4.1_2.13:4.4.0",
        idle_seconds=2,
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
