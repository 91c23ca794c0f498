"""Execution of the operator in the test's process, with the context that it needs.

Spark is started as usual.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from tests.cluster.conftest import ORDERS, Deployment
from tests.integration.operators.conftest import FakeDagRun, FakeTaskInstance

if TYPE_CHECKING:
    import pytest


@dataclass(slots=True, kw_only=True)
class InProcess:
    """A task with a position of its own.

    :param arguments: of the operator, over those that every test here has.
    """

    here: Deployment
    monkeypatch: pytest.MonkeyPatch
    arguments: dict[str, Any]
    positions: dict[str, str] = field(default_factory=dict)

    def connect(self, conn_id: str, connection: dict[str, Any]) -> None:
        self.monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))

    def land(self, master: str, clear_number: int = 0) -> dict[str, Any]:
        """The operator's result.

        :param clear_number: how often the run has been cleared.
        """
        self.connect("sfevents_default", self.here.bus.connection())
        self.connect("spark_default", {"conn_type": "spark", "host": master})
        for name in ("JAVA_HOME", "PATH"):
            self.monkeypatch.setenv(name, self.here.airflow.environment[name])
        with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            operator = SfEventsToSparkOperator(
                task_id="land",
                topic=ORDERS,
                idle_seconds=1,
                position_store=self.positions,
                driver_memory="512m",
                executor_memory="512m",
                **self.arguments,
            )
        context: Any = {
            "ti": FakeTaskInstance(task_id="land", try_number=1 + clear_number),
            "dag_run": FakeDagRun(clear_number=clear_number),
            "dag": dag,
        }
        try:
            result: dict[str, Any] = operator.execute(context)
        finally:
            # Airflow's hook leaves the pipe open until the task's process ends; this process lives
            # on.
            if operator._hook is not None and operator._hook._submit_sp is not None:
                operator._hook._submit_sp.stdout.close()
        return result
