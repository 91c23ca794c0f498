"""One consumer of the orders for each kind of position store; a stand-in lands."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset

from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions.asset import topic_asset

STAND_IN = os.environ["STAND_IN_FILE"]
TOPIC = "/event/Order__e"
EACH: dict[str, Any] = {"topic": TOPIC, "idle_seconds": 2}

with DAG("stores", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    SfEventsToSparkOperator(
        task_id="asset",
        consumer="by_asset",
        position_store="asset",
        inlets=[topic_asset(os.environ["TEST_ORG"], TOPIC)],
        outlets=[Asset("orders_landed")],
        application=STAND_IN,
        **EACH,
    )
    SfEventsToSparkOperator(
        task_id="xcom",
        consumer="by_xcom",
        position_store="xcom",
        application=STAND_IN,
        **EACH,
    )
    SfEventsToSparkOperator(
        task_id="own",
        consumer="by_own",
        position_store="own_store.Files",
        application=STAND_IN,
        **EACH,
    )
    fetch = SfEventsFetchOperator(
        task_id="fetch", consumer="by_chain", position_store="xcom", **EACH
    )
    land = SparkSubmitOperator(
        task_id="land",
        application=STAND_IN,
        application_args=["--manifest", "{{ ti.xcom_pull('fetch')['spark_manifest'] }}"],
    )
    commit = SfEventsCommitOperator(task_id="commit", batch=fetch.output, position_store="xcom")
    fetch >> land >> commit
