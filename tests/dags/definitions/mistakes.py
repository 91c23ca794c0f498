"""Tasks that cannot work, each for one reason; all may be tried twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import stand_in_path
from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

TOPIC = "/event/Order__e"
MISTAKES: dict[str, dict[str, str]] = {
    "unknown_topic": {"topic": "/event/Oder__e"},
    "wrong_secret": {"conn_id": "wrong_secret"},
    "wrong_host": {"conn_id": "wrong_host"},
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
        SfEventsToSparkOperator(
            **{
                "task_id": name,
                "topic": TOPIC,
                "consumer": name,
                "idle_seconds": 0.5,
                "application": stand_in_path.STAND_IN,
                **mistake,
            }
        )

with DAG("mapped", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    SfEventsToSparkOperator.partial(
        task_id="land", table=os.environ["SFEVENTS_LAKE"], idle_seconds=0.5
    ).expand(topic=[TOPIC, "/event/Shipment__e", TOPIC])
