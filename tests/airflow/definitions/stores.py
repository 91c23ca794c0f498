"""One consumer for each kind of position store, on a topic that an asset stands for."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions.asset import topic_asset

TOPIC = "/event/Kept__e"
ASSET = topic_asset(os.environ["TEST_ORG"], TOPIC)
STORES = {"variable": "variable", "asset": "asset", "xcom": "xcom", "own": "own_store.Files"}
EACH: dict[str, Any] = {
    "topic": TOPIC,
    "application": os.environ["STAND_IN_FILE"],
    "idle_seconds": 2,
    "retries": 20,  # some pass while Airflow's API is not there
    "retry_delay": timedelta(seconds=1),
}

with DAG("stores", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    for name, store in STORES.items():
        inlets = [ASSET] if name == "asset" else []
        SfEventsToSparkOperator(
            task_id=name,
            consumer=f"by_{name}",
            position_store=store,
            inlets=inlets,
            outlets=[Asset(f"kept_by_{name}")],
            **EACH,
        )
