"""A sensor before the operator, each DAG with another mode of waiting.

The run's conf names the topic, so that every test has its own position.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task, task_group

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

TOPIC = "{{ dag_run.conf['topic'] }}"
LANDING: dict[str, Any] = {
    "application": os.environ["STAND_IN_FILE"],
    "retries": 3,
    "retry_delay": timedelta(seconds=1),
}
WAITING: dict[str, Any] = {"idle_seconds": 2, "poke_interval": 1, "timeout": 600}
MODES: dict[str, dict[str, Any]] = {
    "poking": {},
    # Airflow 3.3 fails a task whose next poke runs before its scheduler knows of the last one's
    # end.
    "rescheduling": {"mode": "reschedule", "poke_interval": 6},
    "deferring": {"deferrable": True},
}


def dag(name: str, *, runs: int = 4) -> DAG:
    return DAG(
        name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=runs
    )


def waiting(name: str, **how: Any) -> None:
    """A DAG that waits as told, and lands."""
    both = {key: how.pop(key) for key in ("conn_id", "initial_replay") if key in how}
    with dag(name):
        wait = SfEventsSensor(task_id="wait", topic=TOPIC, **both, **WAITING | how)
        wait >> SfEventsToSparkOperator(task_id="land", topic=TOPIC, **both, **LANDING)


for mode, arguments in MODES.items():
    waiting(mode, **arguments)
    waiting(f"{mode}_soft", **arguments, timeout=3, soft_fail=True)
    waiting(f"{mode}_for_three", **arguments, timeout=5, min_events=3)

waiting("deferring_latest", deferrable=True, initial_replay="latest")
waiting("deferring_on", deferrable=True, conn_id="changing", retries=3)

with dag("waiting_mapped"):

    @task
    def topics(dag_run: Any = None) -> list[str]:
        return list(dag_run.conf["topics"])

    @task_group
    def each(topic: str) -> None:
        wait = SfEventsSensor(
            task_id="wait",
            topic=topic,
            deferrable=True,
            soft_fail=True,
            **WAITING | {"timeout": 30},
        )
        wait >> SfEventsToSparkOperator(task_id="land", topic=topic, **LANDING)

    each.expand(topic=topics())
