"""Land orders on a cluster that the environment names.

Executors are small, and have their own Python.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

LANDING: dict[str, Any] = {
    "task_id": "land",
    "topic": "/event/Order__e",
    "table": os.environ["SFEVENTS_LAKE"],
    # Ends with the last published event, however slow the machine is.
    "idle_seconds": 120,
    "max_events": int(os.environ["TEST_EVENTS"]),
    "driver_memory": "512m",
    "executor_memory": "512m",
    "conf": json.loads(os.environ["TEST_CONF"]),
}


def dag(name: str) -> DAG:
    return DAG(name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC))


with dag("shared"):
    SfEventsToSparkOperator(**LANDING, staging=os.environ["TEST_STAGING"], staging_shared=True)

with dag("delta_on_s3"):
    SfEventsToSparkOperator(
        **LANDING | {"table": "s3a://lake/delta", "table_format": "delta"},
        staging="s3://store@lake/staging",
        env_vars={
            "AWS_ACCESS_KEY_ID": "{{ conn.store.login }}",
            "AWS_SECRET_ACCESS_KEY": "{{ conn.store.password }}",
        },
    )
