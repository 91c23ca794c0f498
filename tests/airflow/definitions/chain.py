"""Fetch, Spark task and commit as a chain.

The run's conf names the topic, so that every test has its own position.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator

with DAG("chain", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    fetch = SfEventsFetchOperator(
        task_id="fetch", topic="{{ dag_run.conf['topic'] }}", idle_seconds=2
    )
    spark = SparkSubmitOperator(
        task_id="spark",
        application=os.environ["STAND_IN_FILE"],
        application_args=["--manifest", "{{ ti.xcom_pull('fetch')['spark_manifest'] }}"],
    )
    commit = SfEventsCommitOperator(task_id="commit", batch=fetch.output)
    fetch >> spark >> commit
