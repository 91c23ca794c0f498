"""DAGs with past intervals to backfill.

Their schedules ended long ago, so that no run starts by itself.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

for name in ("daily", "never_ran"):
    with DAG(
        name,
        schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        end_date=datetime(2026, 1, 31, tzinfo=UTC),
        catchup=False,
    ):
        SfEventsToSparkOperator(
            task_id="land",
            topic="{{ dag_run.conf['topic'] }}",
            application=os.environ["STAND_IN_FILE"],
            idle_seconds=2,
            keep_batches=2,
        )
