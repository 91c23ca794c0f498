"""The wheel, and environments that it is installed into.

Every Python, and both ends of the range of versions, that `pyproject.toml` allows has an
environment here. pip and uv make them from the package index, so each takes minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from packaging.requirements import Requirement

from airflow_provider_sfevents.emulator import Emulator
from tests.harness.interpreters import interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.airflow, pytest.mark.full]

IMPORT_ALL = """
import importlib, pkgutil, sys
import airflow_provider_sfevents as package
assert "site-packages" in package.__file__, package.__file__
names = [one.name for one in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
assert len(names) > 300, len(names)
for name in names:
    if name not in sys.argv[1:]:
        importlib.import_module(name)
"""
NEED_AN_EXTRA = ("airflow_provider_sfevents.queues.sfevents",)
NEED_PYTEST = ("airflow_provider_sfevents.emulator.pytest_plugin",)
UNIT_TESTS = ("pubsub", "staging", "positions", "hooks", "spark")
"""Folders of `tests/unit` that use what this package depends on the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment in a folder of its own."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, version: str) -> Environment:
        """Make an empty environment of a Python version; skip the test if this machine has none."""
        _run([interpreter(version), "-m", "venv", str(folder / "venv")])
        return cls(folder=folder)

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    def pip(self, *arguments: str) -> None:
        """Install as a user does."""
        self.run("-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)

    def uv(self, *arguments: str) -> None:
        """Install by uv, which is quicker, and resolves to the oldest versions, too."""
        _run([uv(), "pip", "install", "--python", self.python, *arguments])

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """Run this environment's Python away from the checkout; its output."""
        # What the tests' own environment has on PATH is not there for users.
        path = f"{Path(self.python).parent}{os.pathsep}{os.environ['PATH']}"
        return _run(
            [self.python, *arguments],
            cwd=self.folder,
            env={**os.environ, "PATH": path, **(environment or {})},
        )

    def version(self, name: str) -> str:
        """The installed version of a distribution."""
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        return self.run("-c", code).strip()

    def land(self, repository: Path, spark: Mapping[str, str]) -> int:
        """Run the first example's DAG against an emulated org; return the landed rows.

        Airflow and Spark are those of this environment.
        """
        home, lake = self.folder / "home", self.folder / "lake"
        (home / "dags").mkdir(parents=True)
        shutil.copy(repository / "dags" / "salesforce_orders.py", home / "dags")
        with Emulator(sample=True) as bus:
            bus.publish("/event/Order__e", [{"Order_Number__c": f"A-{n}"} for n in range(3)])
            environment = {
                "AIRFLOW_HOME": str(home),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
                "AIRFLOW_CONN_SFEVENTS_DEFAULT": bus.connection_json(),
                "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
                "SFEVENTS_LAKE": str(lake),
                "JAVA_HOME": spark["JAVA_HOME"],
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": self.python,
            }
            self.run("-m", "airflow", "db", "migrate", environment=environment)
            self.run(
                *("-m", "airflow", "dags", "test", "salesforce_orders", "2026-01-01"),
                environment=environment,
            )
        return int(ds.dataset(lake / "Order__e", partitioning="hive").count_rows())


def uv() -> str:
    """Path of uv in the tests' own environment."""
    return str(Path(sys.executable).with_name("uv"))


def _run(command: list[str], **options: Any) -> str:
    ran = subprocess.run(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        **options,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-4000:]}"
    return str(ran.stdout)


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as README says."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(repository)])
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    read: dict[str, Any] = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return read


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()


def test_wheel_holds_what_users_and_registry_look_for(wheel: Path, repository: Path) -> None:
    """Types marker, licence, .proto and the example DAGs are in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        inside = "airflow_provider_sfevents/example_dags/"
        examples = {
            name.removeprefix(inside): archive.read(name)
            for name in names
            if name.startswith(inside)
        }
    assert "airflow_provider_sfevents/py.typed" in names
    assert "airflow_provider_sfevents/proto/pubsub_api.proto" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    dags = repository / "dags"
    wanted = [dags / ".airflowignore", *dags.rglob("*.py")]
    assert examples == {str(path.relative_to(dags)): path.read_bytes() for path in wanted}
    assert not [name for name in names if name.startswith(("tests/", "dags/", "scripts/"))]


def test_page_of_the_wheel_leads_into_the_repository(wheel: Path) -> None:
    """README has only absolute links in the wheel, beside the project's addresses."""
    head, _, page = metadata(wheel).partition("\n\n")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) > 20
    assert [one for one in links if not one.startswith("https://")] == []
    assert {"documentation", "changelog", "source", "issues"} == set(
        re.findall(r"^Project-URL: (\w+), https://", head, re.MULTILINE)
    )


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_wheel_installed_by_pip_alone_lands_events(
    wheel: Path, repository: Path, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    """A wheel installed by pip alone gives a listed provider and a Spark that lands events."""
    environment = Environment.create(tmp_path, "3.13")
    environment.pip("install", str(wheel))
    environment.pip("check")
    environment.run("-c", IMPORT_ALL, *NEED_AN_EXTRA, *NEED_PYTEST)
    home = {"AIRFLOW_HOME": str(tmp_path / "other")}
    listed = environment.run("-m", "airflow", "providers", "list", environment=home)
    assert "airflow-provider-sfevents" in listed
    assert environment.version("pyspark") == environment.version("pyspark-client")
    emulator = Path(environment.python).with_name("sfevents-emulator")
    assert "usage: sfevents-emulator" in _run([str(emulator), "--help"])
    assert environment.land(repository, spark_environment) == 3


@pytest.fixture(scope="module")
def constraints(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Constraints for the locked Airflow on Python 3.12.

    `AIRFLOW_CONSTRAINTS` names a file; otherwise they are made as Airflow's releases make them: the
    newest versions that resolve for Airflow with all of its extras.
    """
    if named := os.environ.get("AIRFLOW_CONSTRAINTS"):
        return Path(named)
    folder = tmp_path_factory.mktemp("constraints")
    (folder / "all.in").write_text(f"apache-airflow[all]=={airflow_version(repository)}\n")
    made = folder / "constraints-3.12.txt"
    compile_ = [uv(), "pip", "compile", "--quiet", "--python-version", "3.12", "--no-annotate"]
    _run([*compile_, "--output-file", str(made), str(folder / "all.in")])
    return made


def airflow_version(repository: Path) -> str:
    """The version of Airflow that this repository is locked to."""
    lock = (repository / "requirements.lock").read_text()
    found = re.search(r"^apache-airflow==(\S+)", lock, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_wheel_installed_into_a_constrained_airflow_lands_events(
    wheel: Path,
    repository: Path,
    constraints: Path,
    tmp_path: Path,
    spark_environment: dict[str, str],
) -> None:
    """An Airflow with its constraints file and a newer Spark takes the wheel and is unchanged."""
    environment = Environment.create(tmp_path, "3.12")
    airflow = f"apache-airflow=={airflow_version(repository)}"
    with_spark = airflow.replace("==", "[apache-spark]==")
    environment.uv(with_spark, "--constraint", str(constraints))
    pinned = constraints.read_text()
    assert f"pyspark-client=={environment.version('pyspark-client')}\n" in pinned

    environment.uv(str(wheel), airflow)

    assert environment.version("apache-airflow") == airflow_version(repository)
    environment.pip("check")
    environment.run("-c", IMPORT_ALL, *NEED_AN_EXTRA, *NEED_PYTEST)
    assert environment.version("pyspark") == environment.version("pyspark-client")
    assert environment.land(repository, spark_environment) == 3


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_oldest_versions_that_are_allowed_land_events(
    wheel: Path,
    repository: Path,
    project: dict[str, Any],
    tmp_path: Path,
    spark_environment: dict[str, str],
) -> None:
    """With the oldest allowed dependencies all modules import and events land.

    The unit tests of what depends on these versions pass, too.
    """
    environment = Environment.create(tmp_path, "3.11")
    floors = lower_bounds(project)
    # The newest releases of what Airflow needs beside them would lift these.
    held = tmp_path / "held.txt"
    held.write_text(f"grpcio-status=={floors['grpcio']}.*\nprotobuf=={floors['protobuf']}\n")
    oldest = ("--resolution", "lowest-direct", "--constraint", str(held), "--all-extras")
    environment.uv("--requirement", str(repository / "pyproject.toml"), *oldest)
    environment.uv("--no-deps", str(wheel))
    found = {name: environment.version(name) for name in floors}
    assert found == {
        name: found[name] if f"{found[name]}.".startswith(f"{floor}.") else floor
        for name, floor in floors.items()
    }
    environment.uv("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
    environment.run("-c", IMPORT_ALL)
    folders = [str(repository / "tests" / "unit" / one) for one in UNIT_TESTS]
    # What is deprecated by now was not in the oldest releases, and the other way round.
    pytest_ = ("-m", "pytest", "-q", "-n", "2", "-o", "filterwarnings=default")
    # Rules of columns are plain functions on plain values: no dependency takes part in them.
    rules = f"--ignore={repository / 'tests' / 'unit' / 'spark' / 'schema'}"
    environment.run(*pytest_, "--rootdir", str(repository), rules, *folders)
    assert environment.land(repository, spark_environment) == 3


def lower_bounds(project: dict[str, Any]) -> dict[str, str]:
    """The lower bound, or the only version, of each dependency and each extra's."""
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(one for extra in extras for one in extra)]
    return {
        one.name: bound.version
        for one in map(Requirement, declared)
        for bound in one.specifier
        if bound.operator in {">=", "=="}
    }
