"""The services of a test's own Airflow: API server, scheduler, DAG processor, triggerer.

Everything is real: the executor (LocalExecutor) forks supervisors, these fork the task processes,
and both speak to the API server over HTTP. User actions go through the REST API; states are read
from the SQLite file, which also works while the API server is down. The tables, columns and routes
are those of Airflow 3.3.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import psutil  # type: ignore[import-untyped]

from scripts.local_salesforce import free_port
from scripts.processes import end, start
from tests.harness.airflow_home import AIRFLOW
from tests.harness.airflow_runs import Run, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.harness.airflow_home import AirflowHome

COMPONENTS = ("api-server", "scheduler", "dag-processor")
WITH_TRIGGERER = (*COMPONENTS, "triggerer")
READY_SECONDS = 300
ANSWER_SECONDS = 300
"""Longest wait for an answer of the API server, which a busy machine leaves without time."""

# Airflow's defaults wait for seconds and minutes; and poll often, which slows tests in parallel.
QUICK = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # The Spark job of a killed task keeps the task's pipes open; the supervisor waits for their
    # end.
    "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "1",
    # A supervisor without an answer asks twice and gives up after two seconds instead of minutes.
    # One that gets a late answer, on a busy machine, waits. Its task may run without heartbeats.
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "100",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "2",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "1.0",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
    # A new or changed file is parsed at once nevertheless.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__DAG_PROCESSOR__PRINT_STATS_INTERVAL": "0",
    # Time after which another triggerer takes over the triggers of a dead one.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "1",
}


# Every Airflow process reads this at its start. Tasks are forks of the scheduler, and would
# otherwise each import all of it.
LOCAL_SETTINGS = """
import sys

if "scheduler" in sys.argv:
    import airflow.dag_processing.dagbag
    import airflow.sdk.execution_time.task_runner
    import pyarrow.parquet
    import airflow_provider_sfevents.operators.sfevents
    import airflow_provider_sfevents.pubsub.client
    import airflow_provider_sfevents.sensors.sfevents
    import airflow_provider_sfevents.staging.parts.part_writer
"""


@dataclass(slots=True, kw_only=True)
class AirflowServices:
    """A running Airflow, made by `AirflowServices.running`."""

    home: AirflowHome
    port: int
    path: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _token: str = ""

    @classmethod
    @contextmanager
    def running(
        cls, home: AirflowHome, components: Sequence[str] = COMPONENTS, *, path: str = ""
    ) -> Iterator[AirflowServices]:
        """Run the services of `home` for a block, until they are ready for its DAGs.

        Their logs are in `home.folder`.

        :param path: of the `base_url`, such as `/lake`.
        """
        services = cls(home=home, port=free_port(), path=path)
        home.environment.update(services._settings())
        (home.folder / "config").mkdir()
        (home.folder / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        try:
            for component in components:
                services.start(component)
            services._wait_ready()
            yield services
        finally:
            services._end()

    def _end(self) -> None:
        """End the services, and the tasks and jobs that they have started.

        Each of these is in its own process group.
        """
        started = [
            child
            for process in self.processes.values()
            if process.poll() is None
            for child in psutil.Process(process.pid).children(recursive=True)
        ]
        end(self.processes.values())
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()

    def start(self, component: str, name: str = "", **environment: str) -> None:
        """Start a service for the first time or again.

        :param name: name for a second one of its kind; otherwise the service's own.
        :param environment: variables that differ from those of the other services.
        """
        # A triggerer serves its logs on a port that the previous one may still hold.
        own = {"AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()), **environment}
        self.processes[name or component] = start(
            (*AIRFLOW, component),
            log=self.log(name or component),
            environment=self.home.environment | own,
            folder=self.home.folder,
        )

    def restart_api(self) -> None:
        """Start the API server again, and wait until it answers."""
        self.start("api-server")
        wait_until(self._answers, "the API server answers", READY_SECONDS)

    def kill(self, name: str) -> None:
        """SIGKILL a service and every process that it has started."""
        process = self.processes.pop(name)
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGKILL)
        for child in children:  # the triggerer's loop is in its own group
            with suppress(psutil.NoSuchProcess):
                child.kill()
        process.wait()

    @contextmanager
    def without(self, *components: str) -> Iterator[None]:
        """Stop services for a block, and start them again after it."""
        for component in components:
            self.kill(component)
        yield
        for component in components:
            self.start(component)

    def log(self, component: str) -> Path:
        return self.home.folder / f"{component}.log"

    # What a user does.

    def trigger(self, dag_id: str, conf: Mapping[str, Any], logical_date: str | None = None) -> Run:
        """Start a run of a DAG, or queue it."""
        asked = {"logical_date": logical_date, "conf": conf}
        made = self.request("POST", f"dags/{dag_id}/dagRuns", asked)
        return Run(services=self, dag_id=dag_id, run_id=made["dag_run_id"])

    def backfill(self, dag_id: str, first: str, last: str, conf: Mapping[str, Any]) -> None:
        """Create runs for past dates, also for dates that had a run.

        On SQLite, Airflow does this only while no other process writes: `without("scheduler",
        "dag-processor", "triggerer")`.
        """
        asked = {
            "dag_id": dag_id,
            "from_date": first,
            "to_date": last,
            "dag_run_conf": conf,
            "reprocess_behavior": "completed",
            "max_active_runs": 1,
        }
        self.request("POST", "backfills", asked)

    def switch_on(self, dag_id: str) -> None:
        """Unpause a DAG and request a parse of its file, so that its watchers start."""
        self._switch(dag_id, is_paused=False)

    def switch_off(self, dag_id: str) -> None:
        """Pause a DAG; its watchers end."""
        self._switch(dag_id, is_paused=True)

    def _switch(self, dag_id: str, *, is_paused: bool) -> None:
        """Pause or unpause; a conflict means that the file is about to be parsed anyway."""
        dag = self.request("PATCH", f"dags/{dag_id}", {"is_paused": is_paused})
        asked = self._ask("PUT", f"/api/v2/parseDagFile/{dag['file_token']}")
        assert asked.is_success or asked.status_code == httpx.codes.CONFLICT, asked.text

    def is_watching(self, dag_id: str) -> bool:
        """True if the database has triggers for the assets that schedule a DAG.

        A triggerer learns of them later.
        """
        watched = self.home._query(
            "SELECT 1 FROM asset_watcher JOIN dag_schedule_asset_reference USING (asset_id) "
            "WHERE dag_id = ?",
            dag_id,
        )
        return bool(watched)

    def add_dag(self, file: Path, dag_id: str) -> None:
        """Put a file into the DAGs folder, and wait until Airflow has its DAG."""
        shutil.copy(file, self.home.dags)

        def known() -> bool:
            self._check_imports()
            return bool(self.home._query("SELECT 1 FROM dag WHERE dag_id = ?", dag_id))

        wait_until(known, f"{file.name} is parsed")

    def all_runs(self, dag_id: str) -> list[Run]:
        """Runs of a DAG in the order of their requests."""
        rows = self.home._query("SELECT run_id FROM dag_run WHERE dag_id = ? ORDER BY id", dag_id)
        return [Run(services=self, dag_id=dag_id, run_id=run_id) for (run_id,) in rows]

    def runs(self, dag_id: str) -> dict[str, Run]:
        """Runs of a DAG by logical date (its day)."""
        rows = self.home._query(
            "SELECT logical_date, run_id FROM dag_run WHERE dag_id = ? ORDER BY logical_date",
            dag_id,
        )
        return {str(date)[:10]: Run(services=self, dag_id=dag_id, run_id=run) for date, run in rows}

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the REST API.

        :raises AssertionError: with the answer if it is an error.
        """
        answer = self._ask(method, f"/api/v2/{path}", body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def get(self, path: str) -> Any:
        """Read a route that is not of the REST API.

        :raises AssertionError: with the answer if it is an error.
        """
        answer = self._ask("GET", path)
        assert answer.is_success, f"GET {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        url = f"http://127.0.0.1:{self.port}{self.path}"
        with httpx.Client(base_url=url, timeout=ANSWER_SECONDS, trust_env=False) as client:
            if not self._token:
                self._token = client.get("/auth/token").json()["access_token"]
            headers = {"Authorization": f"Bearer {self._token}"}
            answer = client.request(method, path, json=body, headers=headers)
            # SQLite refuses a transaction that has read what another writes; nothing was done.
            while answer.is_server_error and "Database error" in answer.text:
                answer = client.request(method, path, json=body, headers=headers)
            return answer

    def _answers(self) -> dict[str, Any] | None:
        try:
            health = self._ask("GET", "/api/v2/monitor/health")
        except (httpx.HTTPError, ValueError, KeyError):
            return None
        return dict(health.json()) if health.is_success else None

    def _wait_ready(self) -> None:
        """Wait until every service reports healthy and every DAG file is parsed."""
        names = [name.replace("-", "_") for name in self.processes if name != "api-server"]

        def ready() -> bool:
            dead = [name for name, one in self.processes.items() if one.poll() is not None]
            assert not dead, f"{dead[0]} ended:\n{self.log(dead[0]).read_text()[-4000:]}"
            health = self._answers() or {}
            return bool(health) and all(health[name]["status"] == "healthy" for name in names)

        def parsed() -> bool:
            rows = self.home._query("SELECT DISTINCT relative_fileloc FROM dag")
            self._check_imports()
            return {row[0] for row in rows} >= {path.name for path in self.home.dags.glob("*.py")}

        wait_until(ready, "Airflow is healthy", READY_SECONDS)
        wait_until(parsed, "all DAG files are parsed", READY_SECONDS)

    def _check_imports(self) -> None:
        errors = self.home._query("SELECT stacktrace FROM import_error")
        assert not errors, errors[0][0]

    def _settings(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        return QUICK | {
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__BASE_URL": f"{url}{self.path}",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            # Shared by all services, also by an API server that is started again.
            # HS512 requires 64 bytes.
            "AIRFLOW__API_AUTH__JWT_SECRET": "of these tests only ".ljust(64, "."),
            "AIRFLOW__API__SECRET_KEY": "of these tests only",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }
