"""Wait for each of many topics: a mapped group of sensor and operator.

Use it for topics that are quiet most of the time: each lands as soon as it has an event,
independently of the others. A topic without events within the hour is skipped, and its wait holds
no worker slot.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, task_group

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
TOPICS = ["/event/Sales__chn", "/data/AccountChangeEvent", "/data/ContactChangeEvent"]


@task_group
def each(topic: str) -> None:
    wait = SfEventsSensor(
        task_id="wait",
        topic=topic,
        deferrable=True,
        timeout=timedelta(minutes=50),
        soft_fail=True,
        map_index_template="{{ task.topic }}",
    )
    land = SfEventsToSparkOperator(
        task_id="land",
        topic=topic,
        # The other examples land these topics too, so this DAG has its own folder.
        table=f"{LAKE}/topics_waiting",
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.topic }}",
    )
    wait >> land


with DAG(
    "salesforce_topics_waiting",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    each.expand(topic=TOPICS)
