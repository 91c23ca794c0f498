"""A Spark standalone cluster of local processes: a master, workers, and a Python for executors.

All of it is from the pip distribution of Spark. The executors' Python is its own environment, with
neither Airflow nor this package.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil  # type: ignore[import-untyped]

from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.preflight import installed_pyspark
from scripts.processes import end, start
from tests.harness import classes

if TYPE_CHECKING:
    from collections.abc import Sequence

READY_SECONDS = 90
HEAP = "256m"
WHEELS = ("pyarrow", "fastavro", "numpy")
"""Distributions that executors need for decoding."""

_HOLD = "hold_tasks"
_HOLDING = """
import os, time
FOLDER = {folder!r}

def hold():
    \"\"\"Count a new Python worker's task; from the ordered task on, wait.\"\"\"
    number = len(os.listdir(FOLDER + "/tasks"))
    open(f"{{FOLDER}}/tasks/{{number}}-{{os.getpid()}}", "x").close()
    try:
        first = int(open(FOLDER + "/hold").read())
    except FileNotFoundError:
        return
    if number >= first:
        open(f"{{FOLDER}}/held/{{os.getpid()}}", "x").close()
        while os.path.exists(FOLDER + "/hold"):
            time.sleep(0.05)

os.register_at_fork(after_in_child=hold)
"""


@dataclass(slots=True, kw_only=True)
class ExecutorPython:
    """A virtual environment for executors, whose tasks can be held.

    :param folder: of the environment.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path, wheels: Sequence[str] = WHEELS, *, copies: bool = False) -> Self:
        """Make it of the wheels that are installed here: linked, not copied.

        :param copies: of Python's own files, so that it may move to another place.
        """
        options = ["--without-pip", *(["--copies"] if copies else [])]
        command = [sys.executable, "-m", "venv", *options, str(folder)]
        subprocess.run(command, check=True)
        made = cls(folder=folder)
        for wheel in wheels:
            made._link(wheel)
        for name in ("tasks", "held"):
            (folder / name).mkdir()
        (made._site / f"{_HOLD}.py").write_text(_HOLDING.format(folder=str(folder)))
        (made._site / f"{_HOLD}.pth").write_text(f"import {_HOLD}\n")
        return made

    @property
    def binary(self) -> str:
        return str(self.folder / "bin" / "python")

    def said(self, code: str) -> str:
        """Output of a line of Python in it; its error if it fails."""
        done = subprocess.run(
            [self.binary, "-c", code],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def tasks(self) -> int:
        """Number of tasks that have begun."""
        return len(list((self.folder / "tasks").iterdir()))

    def hold(self, after: int) -> None:
        """Hold every task but the next `after`."""
        (self.folder / "hold").write_text(str(self.tasks() + after))

    def held(self) -> list[int]:
        """Pids of the tasks that are held."""
        return [int(path.name) for path in (self.folder / "held").iterdir()]

    def let_go(self) -> None:
        (self.folder / "hold").unlink(missing_ok=True)
        for path in (self.folder / "held").iterdir():
            path.unlink()

    @property
    def _site(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def copy(self, *wheels: str) -> None:
        """Put in wheels that are installed here, to go where it goes."""
        for wheel in wheels:
            for path in _folders(wheel):
                shutil.copytree(path, self._site / path.name)

    def _link(self, wheel: str) -> None:
        for path in _folders(wheel):
            (self._site / path.name).symlink_to(path)


def _folders(wheel: str) -> list[Path]:
    """Folders of a wheel's files in this environment."""
    spec = importlib.util.find_spec(wheel)
    assert spec is not None
    assert spec.origin is not None
    place = Path(spec.origin).parent
    return [path for path in (place, place.with_name(f"{wheel}.libs")) if path.exists()]


@dataclass(slots=True, kw_only=True)
class Machine:
    """A master or a worker: one process, and below it what it has started."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_said(self, pattern: str) -> re.Match[str]:
        """Until its log has it."""
        until = time.monotonic() + READY_SECONDS
        while not (found := re.search(pattern, self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)
        return found

    def pids(self) -> set[int]:
        """Of itself, its executors and their Python processes."""
        with suppress(psutil.NoSuchProcess):
            whole = psutil.Process(self.process.pid)
            return {whole.pid, *(child.pid for child in whole.children(recursive=True))}
        return set()

    def kill(self) -> None:
        """As if the power went: itself and all that runs on it, by SIGKILL."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A master and its workers; a context manager.

    :param folder: for logs and the workers' work.
    :param classpath: jars that lie on every machine.
    """

    folder: Path
    python: ExecutorPython
    workers: list[Machine] = field(default_factory=list)
    _master: Machine | None = None
    _started: int = 0

    @property
    def master_url(self) -> str:
        """As the Spark connection names it."""
        assert self._master is not None
        return self._master.wait_said(r"Starting Spark master at (spark://\S+)")[1]

    def start_master(self) -> None:
        self._master = self._start("master.Master", "--port", "0")

    def start_worker(self, user: str = "") -> Machine:
        """A machine with a core; returns when the master knows it.

        :param user: the user that it runs as, and its executors; ours by default.
        """
        work = self.folder / f"work-{self._started}"
        if user:
            work.mkdir()
            shutil.chown(work, user)
        sizes = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
        worker = self._start("worker.Worker", "--port", "0", *sizes, self.master_url, user=user)
        self.workers.append(worker)
        worker.wait_said("Successfully registered with master")
        return worker

    def running(self) -> list[Machine]:
        return [worker for worker in self.workers if worker.process.poll() is None]

    def worker_of(self, pid: int) -> Machine:
        """The machine that a process runs on."""
        [found] = [worker for worker in self.workers if pid in worker.pids()]
        return found

    def ensure_workers(self, count: int) -> None:
        """Start as many as it takes."""
        while len(self.running()) < count:
            self.start_worker()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start_master()
        return self

    def __exit__(self, *_: object) -> None:
        self.python.let_go()
        for worker in self.running():
            worker.kill()
        if self._master is not None:
            end([self._master.process])

    def _start(self, kind: str, *arguments: str, user: str = "") -> Machine:
        self._started += 1
        log = self.folder / f"{self._started}-{kind}.log"
        home = installed_pyspark()
        assert home is not None
        process = start(
            [
                *(["setpriv", "--reuid", user, "--clear-groups"] if user else []),
                *(["--regid", str(pwd.getpwnam(user).pw_gid)] if user else []),
                str(home / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{kind}",
                *("--host", "127.0.0.1", "--webui-port", "0"),
                *arguments,
            ],
            log=log,
            folder=self.folder,
            # Nothing of the tests' own environment.
            environment={
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C.UTF-8",
                "JAVA_HOME": find_java().home,
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": HEAP,
                "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
                # Its own, and for the executors that it starts.
                "JDK_JAVA_OPTIONS": classes.options(),
            },
        )
        return Machine(process=process, log=log)
