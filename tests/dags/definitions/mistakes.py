"""Tasks that cannot work, each for one reason; all may be tried twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

STAND_IN = os.environ["STAND_IN_FILE"]
TOPIC = "/event/Order__e"
EACH: dict[str, Any] = {"topic": TOPIC, "idle_seconds": 2, "application": STAND_IN}
MISTAKES: dict[str, dict[str, Any]] = {
    "unknown_topic": {"topic": "/event/Oder__e"},
    "wrong_secret": {"conn_id": "wrong_secret"},
    "wrong_host": {"conn_id": "wrong_host", "max_seconds": 1},
    "no_spark_connection": {"spark_conn_id": "spark_nowhere"},
    "edited_position": {"consumer": "edited"},
}

with DAG(
    "mistakes",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={"retries": 1, "retry_delay": timedelta(0)},
):
    for name, mistake in MISTAKES.items():
        SfEventsToSparkOperator(**(EACH | {"task_id": name, "consumer": name} | mistake))

with DAG("mapped", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    SfEventsToSparkOperator.partial(
        task_id="land", table=os.environ["SFEVENTS_LAKE"], idle_seconds=2
    ).expand(topic=[TOPIC, "/event/Shipment__e", TOPIC])
