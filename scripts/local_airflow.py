"""An Airflow on this machine for `make demo` and `make ui`: settings, database, connections. Kept out of anything else's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
AIRFLOW = (sys.executable, "-m", "airflow")


class CannotRun(Exception):  # noqa: N818 - what happened, not an -Error
    """Something on this machine is in the way; the message is the one line that says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAirflow:
    """An Airflow with its home in `folder`, running the DAGs of this repository.

    :param environment: what its processes are started with.
    """

    folder: Path
    environment: dict[str, str]

    @classmethod
    def create(cls, folder: Path, extra: Mapping[str, str] | None = None) -> LocalAirflow:
        """Make the folders and work out the environment.

        :raises CannotRun: without a Java that Spark runs on, or where the folder cannot be written.
        """
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotRun(f"cannot write to {folder}: {error.strerror}") from error
        environment = _settings(folder) | spark_environment() | dict(extra or {})
        return cls(folder=folder, environment=environment)

    @property
    def lake(self) -> Path:
        """Root of the tables that the DAGs land in."""
        return Path(self.environment["SFEVENTS_LAKE"])

    def command(self, *arguments: str, log: str) -> subprocess.CompletedProcess[bytes]:
        """Run an `airflow` command to its end.

        :param log: name of the file in `logs/` that takes what it says.
        :raises CannotRun: when it fails; names the log and gives its last words.
        """
        with self.log(log).open("ab") as output:
            ended = subprocess.run(
                [*AIRFLOW, *arguments],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if ended.returncode:
            raise CannotRun(
                f"`airflow {' '.join(arguments[:2])}` failed: {last_line(self.log(log))} (see {self.log(log)})"
            )
        return ended

    def log(self, name: str) -> Path:
        """File that takes a process's output."""
        return self.folder / "logs" / f"{name}.log"

    def prepare(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        """Bring the database up to date and put the connections into it, over any that are there."""
        self.command("db", "migrate", log="setup")
        given = self.folder / "connections.json"
        given.touch(mode=0o600)
        given.write_text(json.dumps(connections))
        self.command("connections", "import", "--overwrite", str(given), log="setup")
        given.unlink()


def spark_environment() -> dict[str, str]:
    """What `spark-submit` needs of this machine: a Java that the locked Spark runs on, this Python, loopback.

    :raises CannotRun: when there is no such Java.
    """
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.spark.preflight import java_home

    try:
        home = java_home()
    except SfEventsError as error:
        raise CannotRun(str(error)) from error
    return {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def last_line(log: Path) -> str:
    """Last words of a log, which mostly are the reason."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _settings(folder: Path) -> dict[str, str]:
    """Airflow by its environment: nothing of a user's own Airflow counts here, and nothing leaves this machine."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW_", "SPARK_"))
    }
    return inherited | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SFEVENTS_LAKE": str(folder / "lake"),
    }
