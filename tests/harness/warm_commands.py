"""A server that has imported Airflow and forks a process for every `airflow` command.

`python -m tests.harness.warm_commands`. `airflow dags test` takes ten seconds of processor time
before its first task, for the imports and for the routes of its own Execution API. A forked process
has both from the start. Everything else is as usual: arguments, environment, folder, session,
output, database, exit code; the command itself imports this package.

Orders come as JSON lines on stdin, answers go as JSON lines to stdout: `{"pid": ...}` for each
order, `{"ended": pid, "status": ...}` at the end of that process.

The server does not use gRPC, because the forked child of a process that used it hangs.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
READY_SECONDS = 240.0


class WarmCommands:
    """The process that forks commands, one at a time.

    :param environment: environment of the server; each command has its own.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.warm_commands"],
            env=dict(environment),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._rest = b""

    def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        output: Path,
        timeout_seconds: float,
    ) -> int:
        """Run an `airflow` command to its end; return its exit code, negative for a signal.

        :param folder: working directory.
        :param output: file for output and errors.
        :raises subprocess.TimeoutExpired: the command and its children were then killed.
        """
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder),
            "output": str(output),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n".encode())
        pid = int((self._answer("pid", READY_SECONDS) or {})["pid"])
        ended = self._answer("ended", timeout_seconds)
        if ended is None:
            os.killpg(pid, signal.SIGKILL)
            self._answer("ended", READY_SECONDS)
            raise subprocess.TimeoutExpired(
                list(arguments), timeout_seconds, output=output.read_bytes()
            )
        return int(ended["status"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self, name: str, timeout_seconds: float) -> dict[str, Any] | None:
        """Wait for the next answer of this name; None if there is none within the time."""
        assert self._process.stdout is not None
        until = time.monotonic() + timeout_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, until - time.monotonic())):
                    return None
                data = os.read(self._process.stdout.fileno(), 65536)
                assert data, "the warm Airflow is gone; what it said is above"
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        assert name in answer, f"{answer} where {name} was awaited"
        return answer


@cache
def warm_commands() -> WarmCommands:
    """Return this process's server, which runs from its first command to its end."""
    from tests.harness.airflow_home import settings

    made = WarmCommands(settings(Path(os.environ["AIRFLOW_HOME"])))
    atexit.register(made.close)
    return made


def main() -> None:
    """Serve commands; return also in each forked process when its command has ended."""
    # Imported modules may print.
    answers = os.dup(1)
    os.dup2(2, 1)
    _import_everything()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os.close(answers)
            _run(json.loads(line))
            return
        _say(answers, pid=pid)
        _, status = os.waitpid(pid, 0)
        _say(answers, ended=pid, status=os.waitstatus_to_exitcode(status))


def _say(answers: int, **said: int) -> None:
    os.write(answers, f"{json.dumps(said)}\n".encode())


def _import_everything() -> None:
    """Import the modules of most commands, but none that starts a thread.

    The package's modules that import Airflow are left out, because that import reads AIRFLOW_HOME.
    """
    import asyncio

    import a2wsgi  # noqa: F401
    import airflow.__main__
    import airflow.cli.commands.dag_command
    import airflow.dag_processing.bundles.local
    import airflow.dag_processing.dagbag
    import airflow.providers.apache.spark.operators.spark_submit
    import airflow.providers.standard.decorators.python
    import airflow.sdk.execution_time.task_runner
    import airflow.serialization.serialized_objects  # noqa: F401
    import alembic.command  # noqa: F401
    import fastavro  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.execution_time.supervisor import in_process_api_server
    from sqlalchemy.orm import configure_mappers

    from airflow_provider_sfevents.pubsub import client  # noqa: F401
    from airflow_provider_sfevents.staging.parts import part_writer  # noqa: F401
    from tests.harness.warm_airflow import ask_something, keep_for_forks

    ProvidersManager().initialize_providers_configuration()
    configure_mappers()
    asyncio.run(ask_something(in_process_api_server()))
    keep_for_forks()


def _run(order: Mapping[str, Any]) -> None:
    """Run a command as `python -m airflow` does, in the forked process.

    :raises SystemExit: as the command does.
    """
    os.setsid()
    output = os.open(order["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, handle in ((0, nothing), (1, output), (2, output)):
        os.dup2(handle, number)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    imported = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [order["folder"], *imported]
    _move_home(os.environ["AIRFLOW_HOME"])
    sys.argv = ["airflow", *order["arguments"]]

    from airflow.__main__ import main as airflow

    airflow()


def _move_home(home: str) -> None:
    """Set Airflow's home and database, which it reads when it is imported."""
    from airflow import configuration, settings

    configuration.AIRFLOW_HOME = settings.AIRFLOW_HOME = home
    configuration.AIRFLOW_CONFIG = f"{home}/airflow.cfg"
    # Defaults inside the home.
    os.environ.setdefault("AIRFLOW__LOGGING__BASE_LOG_FOLDER", f"{home}/logs")
    os.environ.setdefault("AIRFLOW__CORE__PLUGINS_FOLDER", f"{home}/plugins")
    settings.dispose_orm()
    settings.configure_vars()
    settings.prepare_syspath_for_config_and_plugins()
    settings.configure_orm()


if __name__ == "__main__":
    main()
