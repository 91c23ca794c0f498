"""Maintain the tables of `salesforce_records` once a day.

Small files are compacted, old versions expire, and unneeded files are removed. A run that is
started by hand with `dry_run` reports in its log and its result what it would do and save, and
changes nothing. It may run beside the DAGs that write the tables.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_provider_sfevents.operators.maintain import SfEventsMaintainOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
# Paths of Delta's jars, separated by commas. Without them, Spark downloads the jars from Maven
# Central in the first run.
JARS = os.environ.get("SFEVENTS_LAKE_JARS")

with DAG(
    "salesforce_records_upkeep",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"dry_run": Param(False, type="boolean", description="report, and change nothing")},
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsMaintainOperator(
        task_id="maintain",
        table=f"{LAKE}/record_events",
        current_state=f"{LAKE}/records",
        table_format="delta",
        dry_run="{{ params.dry_run }}",
        jars=JARS,
        packages=None if JARS else "io.delta:delta-spark_4.1_2.13:4.4.0",
        retries=2,
        retry_delay=timedelta(minutes=5),
    )
