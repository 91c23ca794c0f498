"""A file of many orders is published; the task is tried again at once."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator

with DAG("publishing", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    SfEventsPublishOperator(
        task_id="publish",
        topic="/event/Order__e",
        files=f"file://{os.environ['TEST_FOLDER']}/orders.jsonl",
        retries=2,
        retry_delay=timedelta(seconds=0),
    )
