"""Land orders once an hour if there are any: a sensor waits, then an operator lands them.

Use it for a schedule whose run should begin only when there are events. Between two pokes the
sensor releases its worker slot. An hour without orders is skipped, and later orders are there for
the next run.
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
        # The other examples land this topic too, so this DAG has its own folder.
        table=f"{LAKE}/orders_sensor",
    )
    wait >> land
