"""Land orders through a custom Spark job: a template.

The operator fetches and commits as usual; between the two it runs `jobs/sized_orders.py` instead of
its own job, with the batch's manifest and the arguments below. The package is shipped with the job,
for `read_batch` and `write_receipt`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))

with DAG(
    "salesforce_orders_own_job",
    schedule=timedelta(minutes=15),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsToSparkOperator(
        task_id="land_orders",
        topic="/event/Order__e",
        application=str(Path(__file__).parent / "jobs" / "sized_orders.py"),
        application_args=["--table", f"{LAKE}/sized_orders"],
        idle_seconds=2,
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
