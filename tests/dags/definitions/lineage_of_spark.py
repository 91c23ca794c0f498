"""Orders into a Delta table, with OpenLineage's listener in Spark."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

with DAG("lineage_of_spark", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    SfEventsToSparkOperator(
        task_id="land_orders",
        topic="/event/Order__e",
        table=os.environ["SFEVENTS_LAKE"],
        table_format="delta",
        idle_seconds=2,
        driver_memory="1g",
        jars=os.environ["TEST_JARS"],
        conf={
            "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
            "spark.openlineage.transport.type": "file",
            "spark.openlineage.transport.location": os.environ["TEST_FOLDER"] + "/spark.jsonl",
        },
        openlineage_inject_parent_job_info=True,
    )
