"""A triggerer with its database, without the rest of Airflow, and the cost of its processes."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from scripts.processes import running
from tests.harness.airflow_home import AIRFLOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.harness.airflow_home import AirflowHome

READY_SECONDS = 600
CAPACITY = "5000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources of all processes of the triggerer.

    :param memory: bytes; memory that processes share counts once.
    :param cpu_seconds: CPU seconds since their start.
    """

    memory: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggerer:
    """One that runs; `Triggerer.running` makes it."""

    home: AirflowHome
    process: psutil.Process
    log: Path

    @classmethod
    @contextmanager
    def running(cls, home: AirflowHome) -> Iterator[Triggerer]:
        """A triggerer for the length of a block."""
        log = home.folder / "triggerer.log"
        command = (*AIRFLOW, "triggerer", "--capacity", CAPACITY, "--skip-serve-logs")
        with running(command, log=log, environment=home.environment, folder=home.folder) as started:
            process = psutil.Process(started.pid)
            try:
                yield cls(home=home, process=process, log=log)
            finally:
                for child in process.children(recursive=True):  # in a process group of its own
                    child.kill()

    def usage(self) -> Usage:
        processes = [self.process, *self.process.children(recursive=True)]
        times = [one.cpu_times() for one in processes]
        return Usage(
            memory=sum(_memory(one) for one in processes),
            cpu_seconds=sum(one.user + one.system for one in times),
        )

    def held(self) -> int:
        """Triggers that are its own by the database, for a task that still waits."""
        database = sqlite3.connect(self.home.folder / "airflow.db")
        try:
            [[count]] = database.execute(
                "SELECT count(*) FROM trigger t JOIN task_instance i ON i.trigger_id = t.id"
                " WHERE t.triggerer_id IS NOT NULL AND i.state = 'deferred'"
            ).fetchall()
        finally:
            database.close()
        return int(count)

    def wait_holding(self, count: int) -> None:
        """Until it has taken so many triggers.

        :raises SystemExit: it ended, or did not in time.
        """
        until = time.monotonic() + READY_SECONDS
        while self.held() != count:
            if not self.process.is_running() or time.monotonic() > until:
                raise SystemExit(
                    f"the triggerer holds {self.held()} of {count} triggers:\n{self.said()}"
                )
            time.sleep(1)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def _memory(process: psutil.Process) -> int:
    full = process.memory_full_info()
    return int(getattr(full, "pss", full.uss))  # Linux alone counts what is shared by halves
