"""A run of a DAG under Airflow's scheduler: its states, and what a user or a failure does to it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.harness.airflow_services import AirflowServices

PATIENCE_SECONDS = 240
FINISHED = frozenset({"success", "failed"})


def wait_until(true: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until another process has made something true, and return it.

    :raises AssertionError: it did not become true; `what` describes the condition.
    """
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)
    return found


@dataclass(frozen=True, slots=True)
class TaskTry:
    """A task instance as it is in the database.

    :param number: number of the try.
    :param pid: process id of the task while it runs.
    """

    state: str
    number: int
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a DAG."""

    services: AirflowServices
    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        return f"dags/{self.dag_id}/dagRuns/{self.run_id}"

    def task(self, task_id: str, map_index: int = -1) -> TaskTry | None:
        rows = self.services.home._query(
            "SELECT state, try_number, pid FROM task_instance"
            " WHERE dag_id = ? AND run_id = ? AND task_id = ? AND map_index = ?",
            *(self.dag_id, self.run_id, task_id, map_index),
        )
        return TaskTry(*rows[0]) if rows else None

    def tries(self, task_id: str) -> int:
        """Number of tries of a task."""
        task = self.task(task_id)
        return task.number if task else 0

    def tasks(self) -> dict[str, str]:
        """State by task id; the id of a mapped task ends with its map index, as in `task[0]`."""
        return self.services.home._task_states(self.dag_id, self.run_id)

    def state(self) -> str:
        """State of the run; empty if it was deleted."""
        rows = self.services.home._query(
            "SELECT state FROM dag_run WHERE dag_id = ? AND run_id = ?", self.dag_id, self.run_id
        )
        return str(rows[0][0]) if rows else ""

    def wait(self, state: str | None = None) -> dict[str, str]:
        """Wait until the run has ended, and return the states of its tasks.

        :param state: expected state of the run; any other one fails with the logs.
        """
        wait_until(lambda: self.state() in FINISHED, f"run {self.run_id} of {self.dag_id} ends")
        assert state in {None, self.state()}, f"the run ended {self.state()}:\n{self.log()}"
        return self.tasks()

    def wait_try(self, task_id: str, number: int, *states: str) -> TaskTry:
        """Wait until a try of a task is in one of these states."""

        def there() -> TaskTry | None:
            one = self.task(task_id)
            return one if one and one.number == number and one.state in states else None

        what = (
            f"try {number} of {self.dag_id}.{task_id} in run {self.run_id} is {' or '.join(states)}"
        )
        found: TaskTry = wait_until(there, what)
        return found

    def result(self, task_id: str, map_index: int = -1) -> Any:
        """Read a task's return value."""
        return self.services.home.xcom(self.dag_id, self.run_id, task_id, map_index=map_index)

    def clear(self, *task_ids: str, downstream: bool = False) -> None:
        """Clear tasks, as the UI does; all of them if none is named."""
        asked: dict[str, Any] = {
            "dry_run": False,
            "dag_run_id": self.run_id,
            "only_failed": False,
            "reset_dag_runs": True,
            "include_downstream": downstream,
        }
        if task_ids:
            asked["task_ids"] = list(task_ids)
        self.services.request("POST", f"dags/{self.dag_id}/clearTaskInstances", asked)

    def mark(self, task_id: str, state: str) -> None:
        """Mark a task as `success` or `failed`, as the UI does."""
        self.services.request("PATCH", f"{self.path}/taskInstances/{task_id}", {"new_state": state})

    def delete(self) -> None:
        self.services.request("DELETE", self.path)

    def log(self, task_id: str = "*") -> str:
        """Read the logs of the run's tasks, or of one of them, try by try."""
        folder = self.services.home.folder / "logs" / f"dag_id={self.dag_id}"
        files = sorted((folder / f"run_id={self.run_id}").glob(f"task_id={task_id}/**/*.log"))
        return "\n".join(f"--- {file.parent.name} {file.stem}\n{_events(file)}" for file in files)

    def kill_task(self, task_id: str) -> None:
        """SIGKILL the process of a running task; its supervisor notices that."""
        os.kill(self.process(task_id).pid, signal.SIGKILL)

    def kill_supervisor(self, task_id: str) -> psutil.Process:
        """SIGKILL the supervisor of a running task; the task's process continues."""
        process = self.process(task_id)
        supervisor = process.parent()
        assert supervisor is not None
        supervisor.kill()
        return process

    def process(self, task_id: str) -> psutil.Process:
        """Process of a task that runs or is about to run."""
        found: TaskTry = wait_until(
            lambda: (one := self.task(task_id)) and one.pid and one.state == "running" and one,
            f"{task_id} runs",
        )
        assert found.pid is not None
        return psutil.Process(found.pid)


def _events(file: Path) -> str:
    """Messages of a task's log, which is JSON lines."""
    said = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
            said.append(f"{entry['level']}: {entry['event']} {entry.get('error_detail', '') or ''}")
        except (ValueError, KeyError, TypeError):
            said.append(line)
    return "\n".join(said)
