"""Fetch, land and commit in one task.

The run's conf names the topic, so that every test has its own position.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

EACH: dict[str, Any] = {
    "task_id": "land",
    "topic": "{{ dag_run.conf['topic'] }}",
    "idle_seconds": 2,
    "retry_delay": timedelta(0),
}
LANDING: dict[str, Any] = EACH | {"application": os.environ["STAND_IN_FILE"]}
WAITING: dict[str, Any] = LANDING | {
    "idle_seconds": 120,
    "until": "{{ dag_run.conf.get('until', '') }}",
}


def dag(name: str) -> DAG:
    return DAG(name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=2)


with dag("landing"):
    SfEventsToSparkOperator(**LANDING)

with dag("retrying"):
    SfEventsToSparkOperator(**LANDING, retries=3)

with dag("racing"):
    SfEventsToSparkOperator(**LANDING | {"retries": 3, "retry_delay": timedelta(seconds=2)})

with dag("keeping_one"):
    SfEventsToSparkOperator(**LANDING, keep_batches=1)

with dag("waiting"):  # for more events, long; unless the run's conf says until when
    SfEventsToSparkOperator(**WAITING)

with dag("waiting_not_long"):
    SfEventsToSparkOperator(**WAITING, execution_timeout=timedelta(seconds=40))

with dag("with_spark"):
    SfEventsToSparkOperator(
        **EACH,
        table=os.environ["SFEVENTS_LAKE"],
        retries=3,
        spark_binary=os.environ["SPARK_SUBMIT"],
    )

with dag("on_cluster"):
    SfEventsToSparkOperator(
        **EACH | {"retry_delay": timedelta(seconds=10)},
        # A standalone cluster runs only drivers in Java; this stand-in runs Python under any name.
        application=os.environ["STAND_IN_JAR"],
        retries=1,
        spark_conn_id="spark_cluster",
        spark_binary=os.environ["CLUSTER_SPARK_SUBMIT"],
        staging_shared=True,
    )
