"""One mapped task over the topics that the run's conf lists."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

with DAG("mapped", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):

    @task
    def topics(dag_run: Any = None) -> list[str]:
        return list(dag_run.conf["topics"])

    SfEventsToSparkOperator.partial(
        task_id="land",
        application=os.environ["STAND_IN_FILE"],
        idle_seconds=2,
        max_active_tis_per_dagrun=2,
    ).expand(topic=topics())
