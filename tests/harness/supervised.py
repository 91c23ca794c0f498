"""Attempts at a task in a warm Airflow: started, stopped at a named step, killed, awaited.

See `tests.harness.warm_airflow`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import psutil  # type: ignore[import-untyped]

from tests.harness import stops

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Set as AbstractSet

DEADLINE_SECONDS = 240.0
ROOT = Path(__file__).parents[2]
# Environment variable that marks the processes of a warm Airflow. A pid alone is no proof, because
# the system reuses pids within an hour when so many processes start and end.
FORKED_BY = "TEST_FORKED_BY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A step that a process of an attempt reached."""

    step: str
    about: str
    pid: int
    parent: int
    at: float
    stopped: bool


class WarmAirflow:
    """The process that forks supervisors; a context manager.

    :param environment: Airflow's settings; each attempt adds those of its world.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._log = log.open("ab")
        self.mark = uuid4().hex
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.warm_airflow"],
            env={**environment, "PYTHONPATH": str(ROOT), FORKED_BY: self.mark},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._said = threading.Condition()
        self._answers: list[dict[str, Any]] = []
        self._ended: dict[int, int] = {}
        self._forked: list[int] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self._answer()

    def attempt(self, folder: Path, **order: Any) -> Attempt:
        """Fork a supervisor for one try, and return at once.

        :param folder: folder for the attempt's log and the report of its steps.
        :param order: arguments for `warm_airflow`.
        """
        report, log = folder / "steps.jsonl", folder / "task.log"
        folder.mkdir(parents=True)
        report.touch()
        assert self._process.stdin is not None
        line = {"report": str(report), "log": str(log), **order}
        self._process.stdin.write(f"{json.dumps(line)}\n")
        supervisor = int(self._answer()["pid"])
        self._forked.append(supervisor)
        return Attempt(airflow=self, supervisor=supervisor, report=report, log=log)

    def ended(self, pid: int, timeout_seconds: float) -> int | None:
        """Exit status of a supervisor, negative for a signal.

        None if the supervisor still runs after this time.
        """
        with self._said:
            self._said.wait_for(lambda: pid in self._ended, timeout_seconds)
            return self._ended.get(pid)

    def close(self) -> None:
        """End the server and everything that it forked.

        That includes sleepers, orphans, and leftovers of a failed test.
        """
        for pid in members(self._forked, self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self) -> dict[str, Any]:
        with self._said:
            there = self._said.wait_for(lambda: bool(self._answers), DEADLINE_SECONDS)
            assert there, f"the warm Airflow does not answer; see {self._log.name}"
            return self._answers.pop(0)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            with self._said:
                self._ended.pop(said.get("pid"), None)  # an earlier process may have had this pid
                if "ended" in said:
                    self._ended[said["ended"]] = said["status"]
                else:
                    self._answers.append(said)
                self._said.notify_all()


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try: a supervisor, the task's process, and the processes that it starts."""

    airflow: WarmAirflow
    supervisor: int
    report: Path
    log: Path

    def processes(self) -> list[int]:
        """Pids of the attempt: its supervisor, the task, `spark-submit` and its children."""
        return members([self.supervisor], self.airflow.mark)

    def task_now(self) -> list[int]:
        """Pid of the task's process, if there is one at this moment."""
        try:
            children = psutil.Process(self.supervisor).children()
        except psutil.NoSuchProcess:
            return []
        return [child.pid for child in children]

    def wait_all_gone(
        self, but: AbstractSet[int] = frozenset(), timeout_seconds: float = DEADLINE_SECONDS
    ) -> None:
        """Wait until no process of the attempt is left.

        :param but: pids that may stay, with their parents.
        """
        until = time.monotonic() + timeout_seconds
        self.wait(timeout_seconds)
        while left := set(self.processes()) - with_parents(but):
            assert time.monotonic() < until, f"processes {left} do not end:\n{self.said()}"
            time.sleep(0.02)

    def steps(self) -> list[Reached]:
        """Steps that the attempt has reached so far, in order."""
        return [Reached(**one) for one in self._reported() if "step" in one]

    @property
    def state(self) -> str:
        """State of the task in Airflow's database.

        Empty while its supervisor runs, or if the supervisor was killed.
        """
        return str(next(iter(self.told("state")), ""))

    def told(self, name: str) -> list[Any]:
        """Lines of this name that the task has added to its report."""
        return [said[name] for said in self._reported() if name in said]

    def _reported(self) -> list[dict[str, Any]]:
        """Lines of the report, but for one that a process is writing at this moment."""
        *whole, _ = self.report.read_text().split("\n")
        return [json.loads(line) for line in whole]

    @property
    def task(self) -> int:
        """Pid of the task's process: the supervisor's child that reached the first step."""
        return next(one.pid for one in self.steps() if one.parent == self.supervisor)

    def wait_stopped(self, timeout_seconds: float = DEADLINE_SECONDS) -> Reached | None:
        """Wait until a process has stopped at the step.

        None if the attempt ended without reaching it.
        """
        until = time.monotonic() + timeout_seconds
        while True:
            over = self.airflow.ended(self.supervisor, 0.01) is not None
            for one in self.steps():
                if one.stopped and _status(one.pid) == psutil.STATUS_STOPPED:
                    return one
            if over:
                return None
            assert time.monotonic() < until, f"neither stopped nor ended:\n{self.said()}"

    def wait(self, timeout_seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for the supervisor's end; 0 if the task succeeded or was skipped."""
        status = self.airflow.ended(self.supervisor, timeout_seconds)
        assert status is not None, f"the attempt does not end:\n{self.said()}"
        return status

    def said(self) -> str:
        """End of the attempt's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text[-6000:]

    def kill(self, *pids: int) -> None:
        """SIGKILL the processes that still exist."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def terminate_task(self, *pids: int) -> None:
        """SIGTERM to the task's process, as from a supervisor whose task was marked as failed."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def terminate(self) -> None:
        """SIGTERM to the supervisor, for an orderly end."""
        with suppress(ProcessLookupError):
            os.kill(self.supervisor, signal.SIGTERM)

    def go_on(self, pid: int) -> None:
        """Let a stopped process continue."""
        stops.may_go_on(str(self.report), pid).touch()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def wait_gone(self, pid: int, timeout_seconds: float = DEADLINE_SECONDS) -> None:
        """Wait for the end of a process that is not a child of this one."""
        until = time.monotonic() + timeout_seconds
        while is_running(pid):
            assert time.monotonic() < until, f"process {pid} does not end:\n{self.said()}"
            time.sleep(0.02)


def parent_of(pid: int) -> int:
    """Pid of the parent of an existing process."""
    return int(psutil.Process(pid).ppid())


def members(supervisors: Collection[int], mark: str) -> list[int]:
    """Pids in the sessions that these supervisors began.

    :param mark: mark of the server that forked them, which excludes other sessions of the same
        number.
    """
    sessions = frozenset(supervisors)
    return [
        pid
        for pid in psutil.pids()
        if _session(pid) in sessions and is_running(pid) and _mark(pid) == mark
    ]


def with_parents(pids: AbstractSet[int]) -> set[int]:
    """These pids and those of their ancestors.

    A sleeping job's `spark-submit` stays as long as the job does.
    """
    found = set(pids)
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found.update(parent.pid for parent in psutil.Process(pid).parents())
    return found


def is_running(pid: int) -> bool:
    """True if the process exists, running or stopped; a zombie does not count."""
    return _status(pid) not in {"", psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return 0


def _mark(pid: int) -> str:
    """Mark of a process; empty if it has ended or belongs to another user."""
    try:
        return str(psutil.Process(pid).environ().get(FORKED_BY, ""))
    except psutil.Error:
        return ""


def _status(pid: int) -> str:
    """Status of a process; empty if there is none."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return ""
