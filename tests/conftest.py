"""The ground of every test: an Airflow home of its own, set before anything imports Airflow."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import skips

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.harness.airflow_home import AirflowHome
    from tests.harness.lanes import Lanes

_HOME = Path(tempfile.mkdtemp(prefix="sfevents-tests-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)


def _isolate() -> None:
    """Remove the developer's own Airflow settings before Airflow is first imported."""
    from tests.harness import classes

    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    os.environ.update(
        {
            "AIRFLOW_HOME": str(_HOME),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(_HOME / "dags"),
            # Without a key the database holds plain text, which tests may read.
            "AIRFLOW__CORE__FERNET_KEY": "",
            "AIRFLOW__API_AUTH__JWT_SECRET": "of these tests only ".ljust(64, "."),
            "SPARK_LOCAL_IP": "127.0.0.1",
            classes.VARIABLE: classes.options(),
        }
    )


_isolate()

# A property holds on a slow machine, too: no example has a deadline, and making them may take long.
# A test that suppresses other checks keeps this one: `settings().suppress_health_check`.
settings.register_profile("sfevents", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sfevents")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Lanes:
    """Return the scheduler that distributes tests over several processes."""
    from tests.harness.lanes import Lanes

    return Lanes(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.harness import lanes

        lanes.sort(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    skips.judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    skips.judge(report)
    return report


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the checkout."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Event loop of asynchronous tests: asyncio, without the noise of gRPC's closed loops."""
    from tests.harness.event_loops import BACKEND

    return BACKEND


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Airflow's database for tests in this process; `airflow_home` is for whole commands."""
    from airflow.utils.db import initdb

    (_HOME / "dags").mkdir(exist_ok=True)
    initdb()


@pytest.fixture(scope="session")
def spark_environment() -> dict[str, str]:
    """Environment variables of `spark-submit` on this machine: Java, this Python, loopback."""
    from tests.harness.spark import environment

    return environment()


@pytest.fixture(scope="session")
def airflow_database_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh Airflow database, made once for all test processes.

    Every `airflow_home` begins with a copy of it.
    """
    from tests.harness.airflow_home import make_database

    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    database = folder / "airflow.db"
    with (folder / "airflow.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not database.exists():
            make_database(tmp_path_factory.mktemp("airflow-database")).rename(database)
    return database


@pytest.fixture
def airflow_home(tmp_path: Path, airflow_database_file: Path) -> Iterator[AirflowHome]:
    """An Airflow of the test's own, whose commands run as processes."""
    from tests.harness.airflow_home import AirflowHome

    home = AirflowHome.create(tmp_path / "airflow", airflow_database_file)
    yield home
    home.end_processes()


@pytest.fixture
def airflow_with_spark(airflow_home: AirflowHome, spark_environment: dict[str, str]) -> AirflowHome:
    """An `airflow_home` with Spark's environment and `spark_default` on `local[2]`."""
    airflow_home.environment.update(spark_environment)
    airflow_home.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
    return airflow_home
