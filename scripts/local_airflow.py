"""An Airflow for `make demo` and `make ui`: settings, database, connections.

It is separate from any other Airflow of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.tables.naming import DELTA, JARS
from airflow_provider_sfevents.submit.deploy_modes import unresolved_jars
from scripts.processes import CannotRunError, running, what_went_wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
AIRFLOW = (sys.executable, "-m", "airflow")
NEEDED_MEGABYTES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAirflow:
    """An Airflow with all that belongs to it in `place`, running the DAGs of this repository.

    :param environment: what its processes are started with.
    """

    place: Path
    environment: dict[str, str]

    @classmethod
    def create(cls, place: Path, extra: Mapping[str, str] | None = None) -> LocalAirflow:
        """Make the folders and the environment.

        :raises CannotRunError: without a Java for Spark, or if the folder cannot be written.
        """
        try:
            (place / "logs").mkdir(parents=True, exist_ok=True)
            (place / "airflow").mkdir(exist_ok=True)
            free = shutil.disk_usage(place).free // 2**20
        except OSError as error:
            raise CannotRunError(f"cannot write to {place}: {error.strerror}") from error
        if free < NEEDED_MEGABYTES:
            raise CannotRunError(
                f"only {free} MB are free in {place}; this needs {NEEDED_MEGABYTES} MB. Make room "
                "there"
            )
        environment = _settings(place) | spark_environment() | dict(extra or {})
        return cls(place=place, environment=environment)

    @property
    def home(self) -> Path:
        """AIRFLOW_HOME; the staging area is in it too."""
        return self.place / "airflow"

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    @property
    def lake(self) -> Path:
        """Root of the tables that the DAGs land in."""
        return self.place / "lake"

    def log(self, name: str) -> Path:
        """File that takes a process's output."""
        return self.place / "logs" / f"{name}.log"

    def command(self, *arguments: str, log: str) -> None:
        """Run an `airflow` command to its end.

        :param log: name of the file that takes what it says.
        :raises CannotRunError: when it fails; with the lines of the log that say why.
        """
        path = self.log(log)
        with running(
            (*AIRFLOW, *arguments), log=path, environment=self.environment, folder=self.home
        ) as process:
            if process.wait() == 0:
                return
        why = "\n    ".join(what_went_wrong(path))
        raise CannotRunError(
            f"`airflow {' '.join(arguments[:3])}` failed:\n    {why}\nAll it said is in {path}"
        )

    def migrate(self) -> None:
        """Make the database, or bring it up to date."""
        self.command("db", "migrate", log="airflow-database")

    def connect(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        """Put connections into the database, over any that are there."""
        given = self.home / "connections.json"
        given.touch(mode=0o600)
        given.write_text(json.dumps(connections))
        self.command("connections", "import", "--overwrite", str(given), log="airflow-connections")
        given.unlink()

    def fetch_lake_jars(self) -> None:
        """Download Delta's jars once, for the DAGs that keep records.

        Those take them from `SFEVENTS_LAKE_JARS`. Spark downloads them as it would for `packages`,
        but into this folder, so that a damaged copy in the user's own folder does no harm.

        :raises CannotRunError: Spark could not download them; these DAGs then try it by themselves.
        """
        jars = self.place / "jars" / JARS[DELTA].replace(":", "_")
        log = self.log("lake-jars")
        if not jars.is_dir():
            with tempfile.TemporaryDirectory(dir=self.place) as made:
                nothing = Path(made, "nothing.py")
                nothing.touch()
                command = ["spark-submit", "--master", "local[1]", "--packages", JARS[DELTA]]
                command += ["--driver-java-options", f"-Duser.home={made}", str(nothing)]
                with running(
                    command, log=log, environment=self.environment, folder=self.place
                ) as spark:
                    if spark.wait() != 0:
                        told = unresolved_jars(log.read_text(errors="replace"))
                        raise CannotRunError(told or "; ".join(what_went_wrong(log)))
                jars.parent.mkdir(exist_ok=True)
                next(Path(made).glob(".ivy2*/jars")).rename(jars)
        self.environment["SFEVENTS_LAKE_JARS"] = ",".join(map(str, sorted(jars.glob("*.jar"))))


def spark_environment() -> dict[str, str]:
    """Environment of `spark-submit`: a Java for the locked Spark, this Python, loopback.

    :raises CannotRunError: when there is no such Java.
    """
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.submit.java import find_java

    try:
        java = find_java()
    except SfEventsError as error:
        raise CannotRunError(str(error)) from error
    return {
        "JAVA_HOME": java.home,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def _settings(place: Path) -> dict[str, str]:
    """Airflow's settings as environment variables, in place of any settings of the user.

    Nothing is sent from this machine.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW_", "SPARK_"))
    }
    return inherited | {
        "AIRFLOW_HOME": str(place / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{place / 'airflow'}/airflow.db?timeout=60",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SFEVENTS_LAKE": str(place / "lake"),
    }
