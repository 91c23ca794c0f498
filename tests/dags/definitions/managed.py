"""A sensor and an operator on a managed subscription, with a stand-in for the Spark job."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

EACH: dict[str, Any] = {
    "topic": "/event/Order__e",
    "position_store": "managed",
    "managed_subscription": "Orders",
    "idle_seconds": 1.0,
}

with DAG("managed", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    wait = SfEventsSensor(task_id="wait", poke_interval=1, timeout=60, **EACH)
    land = SfEventsToSparkOperator(task_id="land", application=os.environ["STAND_IN_FILE"], **EACH)
    wait >> land
