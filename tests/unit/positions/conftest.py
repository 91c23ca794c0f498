"""An Airflow task's surroundings without an Airflow."""

from __future__ import annotations

import pytest

from tests.unit.positions.supervisor import Supervisor


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """Answers what the test's task asks of Airflow; the one place where Airflow lets itself be answered by somebody else."""
    from airflow.sdk.execution_time import task_runner

    fake = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    return fake
