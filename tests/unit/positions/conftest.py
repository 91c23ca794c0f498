"""Environment of an Airflow task, without an Airflow."""

from __future__ import annotations

import pytest

from tests.unit.positions.supervisor import Supervisor


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """Answer the requests of the test's task, in the one place that Airflow provides for that."""
    from airflow.sdk.execution_time import task_runner

    fake = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    return fake
