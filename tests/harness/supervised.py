"""Attempts at a task in a warm Airflow: started, stopped at a named step, killed, awaited. See `tests.harness.warm_airflow`."""

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
# Names whose a process is, to itself and to those that it starts: a pid is given anew within the hour where so many come and go.
FORKED_BY = "TEST_FORKED_BY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A step that some process of an attempt got to."""

    step: str
    about: str
    pid: int
    parent: int
    at: float
    stopped: bool


class WarmAirflow:
    """The process that forks supervisors; a context manager.

    :param environment: Airflow's settings; a world's own come with each attempt.
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
        """Fork a supervisor for one try; returns at once.

        :param folder: takes the attempt's log and the report of its steps.
        :param order: what `warm_airflow` wants to know.
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
        """Exit status of a supervisor, negative for a signal; None when it is still there after this time."""
        with self._said:
            self._said.wait_for(lambda: pid in self._ended, timeout_seconds)
            return self._ended.get(pid)

    def close(self) -> None:
        """End it, and whoever is left of what it forked: sleepers, orphans, what a failed test left alone."""
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
                self._ended.pop(said.get("pid"), None)  # who had this pid before is forgotten
                if "ended" in said:
                    self._ended[said["ended"]] = said["status"]
                else:
                    self._answers.append(said)
                self._said.notify_all()


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try: a supervisor, its task's process, and what that starts."""

    airflow: WarmAirflow
    supervisor: int
    report: Path
    log: Path

    def processes(self) -> list[int]:
        """Whoever belongs to it and is there: its supervisor, the task, `spark-submit` and what that started."""
        return members([self.supervisor], self.airflow.mark)

    def task_now(self) -> list[int]:
        """Pid of the task's process, if it has one at this moment."""
        try:
            children = psutil.Process(self.supervisor).children()
        except psutil.NoSuchProcess:
            return []
        return [child.pid for child in children]

    def wait_all_gone(
        self, but: AbstractSet[int] = frozenset(), timeout_seconds: float = DEADLINE_SECONDS
    ) -> None:
        """Until nobody of it is left.

        :param but: pids that may stay, with their parents.
        """
        until = time.monotonic() + timeout_seconds
        self.wait(timeout_seconds)
        while left := set(self.processes()) - with_parents(but):
            assert time.monotonic() < until, f"processes {left} do not end:\n{self.said()}"
            time.sleep(0.02)

    def steps(self) -> list[Reached]:
        """What has been reached so far, in order."""
        lines = self.report.read_text().splitlines()
        said = [json.loads(line) for line in lines]
        return [Reached(**one) for one in said if "step" in one]

    @property
    def state(self) -> str:
        """The task's state in Airflow's database, as its supervisor left it; empty while that is at work, or when it was killed."""
        return str(next(iter(self.told("state")), ""))

    def told(self, name: str) -> list[Any]:
        """What it has written into its report of its own, under this name."""
        lines = map(json.loads, self.report.read_text().splitlines())
        return [said[name] for said in lines if name in said]

    @property
    def task(self) -> int:
        """Pid of the task's process: the supervisor's child that reached the first step."""
        return next(one.pid for one in self.steps() if one.parent == self.supervisor)

    def wait_stopped(self, timeout_seconds: float = DEADLINE_SECONDS) -> Reached | None:
        """Until a process has stopped itself at the step; None when the attempt ended without getting there."""
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
        """Until the supervisor is gone; its exit status: 0 when the task succeeded or was skipped."""
        status = self.airflow.ended(self.supervisor, timeout_seconds)
        assert status is not None, f"the attempt does not end:\n{self.said()}"
        return status

    def said(self) -> str:
        """The end of the attempt's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text[-6000:]

    def kill(self, *pids: int) -> None:
        """SIGKILL, each unless it is gone already."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def terminate_task(self, *pids: int) -> None:
        """SIGTERM to the task's process, as from a supervisor whose task was marked as failed."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def terminate(self) -> None:
        """SIGTERM, to end in good order."""
        with suppress(ProcessLookupError):
            os.kill(self.supervisor, signal.SIGTERM)

    def go_on(self, pid: int) -> None:
        """Let a stopped process go on."""
        stops.may_go_on(str(self.report), pid).touch()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def wait_gone(self, pid: int, timeout_seconds: float = DEADLINE_SECONDS) -> None:
        """Until a process that is not ours to wait for is gone."""
        until = time.monotonic() + timeout_seconds
        while is_running(pid):
            assert time.monotonic() < until, f"process {pid} does not end:\n{self.said()}"
            time.sleep(0.02)


def parent_of(pid: int) -> int:
    """The parent of a process that is there."""
    return int(psutil.Process(pid).ppid())


def members(supervisors: Collection[int], mark: str) -> list[int]:
    """Whoever is there of the sessions that these supervisors began.

    :param mark: of who forked them; a session of the same number that is not theirs is somebody else's.
    """
    sessions = frozenset(supervisors)
    return [
        pid
        for pid in psutil.pids()
        if _session(pid) in sessions and is_running(pid) and _mark(pid) == mark
    ]


def with_parents(pids: AbstractSet[int]) -> set[int]:
    """These and their ancestors: a sleeping job's `spark-submit` is there as long as the job is."""
    found = set(pids)
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found.update(parent.pid for parent in psutil.Process(pid).parents())
    return found


def is_running(pid: int) -> bool:
    """Whether there is such a process, be it stopped; one that only waits to be reaped is none."""
    return _status(pid) not in {"", psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return 0


def _mark(pid: int) -> str:
    """Empty for a process that is gone, or of somebody else."""
    try:
        return str(psutil.Process(pid).environ().get(FORKED_BY, ""))
    except psutil.Error:
        return ""


def _status(pid: int) -> str:
    """Empty for no such process."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return ""
