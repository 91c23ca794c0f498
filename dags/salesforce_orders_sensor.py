"""Orders, once an hour, if there are any: a sensor waits, and an operator fetches, lands and commits.

For a schedule of your own whose run should begin only when there is something to do. Between two looks the sensor gives its worker
slot back. An hour without orders is skipped, and what came too late for one run is there for the next.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
TOPIC = "/event/Order__e"

with DAG(
    "salesforce_orders_sensor",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    wait = SfEventsSensor(
        task_id="wait_for_orders",
        topic=TOPIC,
        mode="reschedule",
        poke_interval=60,
        timeout=timedelta(minutes=50),
        soft_fail=True,
    )
    land = SfEventsToSparkOperator(
        task_id="land_orders",
        topic=TOPIC,
        # The other examples read this topic too, and each consumer lands an event once: a root of its own.
        table=f"{LAKE}/orders_sensor",
        idle_seconds=5,
    )
    wait >> land
