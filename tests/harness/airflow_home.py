"""An Airflow for one test: a home folder with a database, connections and DAGs.

Its commands run as processes. `airflow dags test` runs a DAG in one process, with the real
database, task runner and `spark-submit`, but without scheduler and API server; `test_dag` has that
process forked by one that has imported Airflow already (`warm_commands`). The results are read from
the SQLite file, which is many times faster than Airflow's own commands; the tables and columns read
here are those of Airflow 3.3.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.harness.warm_commands import warm_commands

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AIRFLOW = (sys.executable, "-m", "airflow")


@dataclass(frozen=True, slots=True, kw_only=True)
class DagTest:
    """Result of one `airflow dags test`."""

    exit_code: int
    log: str
    state: str
    run_id: str
    tasks: dict[str, str]
    """State by task id; the id of a mapped task ends with its map index, as in `task[0]`."""


@dataclass(slots=True, kw_only=True)
class AirflowHome:
    """One Airflow, made by the fixture `airflow_home`."""

    folder: Path
    environment: dict[str, str]
    _running: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    def create(cls, folder: Path, database: Path) -> AirflowHome:
        """Create a home in `folder`, with a copy of the database file `database`."""
        (folder / "dags").mkdir(parents=True)
        shutil.copy(database, folder / "airflow.db")
        return cls(folder=folder, environment=settings(folder))

    @property
    def dags(self) -> Path:
        """The DAGs folder."""
        return self.folder / "dags"

    def connect(self, conn_id: str, connection: Mapping[str, Any]) -> None:
        """Add a connection to this Airflow, through the environment."""
        self.environment[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(connection)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start an `airflow` command and leave it running.

        The fixture kills it if it still runs at the end of the test.
        """
        process = subprocess.Popen(
            [*AIRFLOW, *arguments],
            env=self.environment,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def command(
        self, *arguments: str, timeout_seconds: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run an `airflow` command to its end; `stdout` has its output and its errors."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=timeout_seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def test_dag(
        self,
        dag_id: str,
        logical_date: str,
        *,
        conf: Mapping[str, Any] | None = None,
        timeout_seconds: float = 240,
    ) -> DagTest:
        """Run a DAG of the DAGs folder by `airflow dags test`.

        :param logical_date: date of the run; a second run of the same date replaces the first one.
        """
        options = ("--conf", json.dumps(conf)) if conf is not None else ()
        output = self.folder.with_name(f"{self.folder.name}-{uuid4().hex}.log")
        exit_code = warm_commands().run(
            ("dags", "test", *options, dag_id, logical_date),
            environment=self.environment,
            folder=self.folder,
            output=output,
            timeout_seconds=timeout_seconds,
        )
        log = output.read_text(errors="replace")
        output.unlink()
        run_id, state = self._newest_run(dag_id, log)
        return DagTest(
            exit_code=exit_code,
            log=log,
            state=state,
            run_id=run_id,
            tasks=self._task_states(dag_id, run_id),
        )

    def variable(self, key: str) -> str | None:
        """Read an Airflow Variable; None if there is none."""
        rows = self._query("SELECT val FROM variable WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def set_variable(self, key: str, value: str) -> None:
        """Write a Variable, as a user does in the UI."""
        with sqlite3.connect(self.folder / "airflow.db") as database:
            database.execute("DELETE FROM variable WHERE key = ?", (key,))
            database.execute(
                "INSERT INTO variable (key, val, is_encrypted) VALUES (?, ?, 0)", (key, value)
            )

    def know_dag(self, dag_id: str, *, is_paused: bool = False) -> None:
        """Write the row of a DAG without a file."""
        values = {
            "dag_id": dag_id,
            "is_paused": is_paused,
            "is_stale": False,
            "bundle_name": "dags-folder",
            "timetable_type": "",
            "partition_mapper_info": "{}",
            "max_active_tasks": 16,
            "max_consecutive_failed_dag_runs": 0,
            "has_task_concurrency_limits": False,
        }
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        statement = f"INSERT INTO dag ({columns}) VALUES ({marks})"  # noqa: S608 - own names
        with sqlite3.connect(self.folder / "airflow.db") as database:
            database.execute(
                "INSERT OR IGNORE INTO dag_bundle (name, active) VALUES (?, 1)", ("dags-folder",)
            )
            database.execute(statement, [*values.values()])

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """Read a task's XCom as it is in the database; None if there is none."""
        rows = self._query(
            "SELECT value FROM xcom WHERE dag_id = ? AND run_id = ? AND task_id = ? AND key = ? "
            "AND map_index = ?",
            dag_id,
            run_id,
            task_id,
            key,
            map_index,
        )
        if not rows:
            return None
        value = rows[0][0]
        while isinstance(value, (str, bytes)):
            try:
                value = json.loads(value)
            except ValueError:
                break
        return value

    def asset_extras(self, asset: str) -> list[dict[str, Any]]:
        """Read the extras of an asset's events, oldest first."""
        rows = self._query(
            "SELECT e.extra FROM asset_event e JOIN asset a ON a.id = e.asset_id "
            "WHERE a.name = ? ORDER BY e.id",
            asset,
        )
        return [json.loads(extra) if isinstance(extra, str) else extra for (extra,) in rows]

    def end_processes(self) -> None:
        """End the started processes that still run."""
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _newest_run(self, dag_id: str, log: str) -> tuple[str, str]:
        rows = self._query(
            "SELECT run_id, state FROM dag_run WHERE dag_id = ? ORDER BY id DESC LIMIT 1", dag_id
        )
        if not rows:
            raise AssertionError(f"`airflow dags test {dag_id}` made no run. It said:\n{log}")
        return str(rows[0][0]), str(rows[0][1])

    def _task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        rows = self._query(
            "SELECT task_id, map_index, state FROM task_instance WHERE dag_id = ? AND run_id = ?",
            dag_id,
            run_id,
        )
        return {
            (task if index < 0 else f"{task}[{index}]"): str(state) for task, index, state in rows
        }

    def _query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(self.folder / "airflow.db")
        try:
            return database.execute(statement, parameters).fetchall()
        finally:
            database.close()


def make_database(folder: Path) -> Path:
    """Create an Airflow database in `folder` by `airflow db migrate`.

    :raises AssertionError: with Airflow's output if it could not.
    """
    (folder / "dags").mkdir()
    made = subprocess.run(
        [*AIRFLOW, "db", "migrate"],
        env=settings(folder),
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stdout
    return folder / "airflow.db"


def settings(folder: Path) -> dict[str, str]:
    """Environment of Airflow's processes.

    The database is SQLite without an encryption key, so that tests can read it.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")
    }
    return inherited | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__FERNET_KEY": "",
        # On a disk that is busy with other tests, a write may take longer than SQLite's five
        # seconds.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db?timeout=60",
        "PYTHONUNBUFFERED": "1",
    }
