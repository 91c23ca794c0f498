"""Land all record changes as a chain whose Spark task is Airflow's own.

Use it to configure the Spark task yourself: a fetch stages a batch, `SparkSubmitOperator` lands it,
and a commit moves the position once the batch's receipt exists. Each record type gets its own
table. A run without changes skips the chain.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))

with DAG(
    "salesforce_changes_chain",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    fetch = SfEventsFetchOperator(task_id="fetch", topic="/data/ChangeEvents", idle_seconds=2)
    land = SparkSubmitOperator(
        task_id="land",
        application="{{ ti.xcom_pull('fetch')['application'] }}",
        py_files="{{ ti.xcom_pull('fetch')['py_files'] }}",
        application_args=[
            "--manifest",
            "{{ ti.xcom_pull('fetch')['spark_manifest'] }}",
            "--table",
            LAKE,
        ],
        conf={"spark.log.level": "WARN"},
    )
    commit = SfEventsCommitOperator(task_id="commit", batch=fetch.output)
    fetch >> land >> commit
