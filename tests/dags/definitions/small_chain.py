"""The chain with a stand-in for the Spark job.

The environment sets the time in which a fetch waits for events.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import (
    SfEventsCommitOperator,
    SfEventsFetchOperator,
)

STAND_IN = os.environ["STAND_IN_FILE"]

with DAG("small_chain", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    fetch = SfEventsFetchOperator(
        task_id="fetch",
        topic="/event/Order__e",
        idle_seconds=float(os.environ.get("TEST_IDLE_SECONDS", "0.5")),
    )
    land = SparkSubmitOperator(
        task_id="land",
        application=STAND_IN,
        application_args=["--manifest", "{{ ti.xcom_pull('fetch')['spark_manifest'] }}"],
    )
    commit = SfEventsCommitOperator(task_id="commit", batch=fetch.output)
    fetch >> land >> commit
