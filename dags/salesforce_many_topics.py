"""Many topics with one mapped task: each topic has a position and batches of its own."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))

with DAG(
    "salesforce_many_topics",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsToSparkOperator.partial(
        task_id="land",
        # The other examples land these topics too, so this DAG has its own folder.
        table=f"{LAKE}/many_topics",
        idle_seconds=2,
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.topic }}",
    ).expand(topic=["/event/Sales__chn", "/data/AccountChangeEvent", "/data/ContactChangeEvent"])
