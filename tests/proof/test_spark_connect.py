"""Tasks under Airflow's supervisor with a Spark Connect server: two at once, and one that ends."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.landing.landed_batch import FEW
from airflow_provider_sfevents.staging import layout
from tests.harness.airflow_runs import wait_until
from tests.proof import invariants
from tests.proof.world import SPARK
from tests.spark.connected import server_in, session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from scripts.local_spark_connect import LocalSparkConnect
    from tests.proof.world import Stage, World

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSparkConnect]:
    with server_in(tmp_path_factory.mktemp("server"), []) as server:
        yield server


@pytest.fixture(scope="module")
def world(
    new_stage: Callable[[str], AbstractContextManager[Stage]], server: LocalSparkConnect
) -> Iterator[Callable[[str], World]]:
    """A function that makes a world whose tasks use the server."""
    options = {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(server.connection()),
        "AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS": "300",
    }
    with new_stage("connect") as stage:
        yield lambda name: stage.world(name, job=SPARK, **options)


def test_a_task_that_is_ended_interrupts_its_statement(
    world: Callable[[str], World], server: LocalSparkConnect, tmp_path: Path
) -> None:
    """SIGTERM ends the operation on the server and the lease; the next try lands the batch."""
    ended = world("ended")
    # The worker decodes fewer events itself, and then no statement waits for the server's cores.
    ended.publish(FEW + 1)
    attempt = ended.start(stop_at=steps.LANDING_BEGAN)
    stopped = attempt.wait_stopped()
    assert stopped is not None, attempt.said()
    with busy(server, tmp_path / "busy"):
        attempt.go_on(stopped.pid)
        wait_until(lambda: running_jobs(server) == 2, "a statement waits for the server's cores")
        attempt.terminate_task(stopped.pid)
        attempt.wait_all_gone()
        wait_until(lambda: running_jobs(server) == 1, "the operation is interrupted")
    assert attempt.state == "failed"
    assert "The task was ended while Spark ran" in attempt.said()
    leases = [one for batch in ended.batches for one in (batch / layout.LEASES).glob("*.json")]
    assert leases
    assert all(one.with_suffix(".released").exists() for one in leases)

    again = ended.start(again=True)
    again.wait_all_gone()
    assert again.state == "success", again.said()
    landed_once(ended)


def test_two_tasks_at_once_land_on_one_server(world: Callable[[str], World]) -> None:
    """Each has a session of its own."""
    two = [world("one"), world("other")]
    for one in two:
        one.publish(5)
    for attempt in [one.start() for one in two]:
        attempt.wait_all_gone()
        assert attempt.state == "success", attempt.said()
    for one in two:
        landed_once(one)


def landed_once(world: World) -> None:
    """Each event is in the table once, and was delivered once."""
    assert [*invariants.lost(world), *invariants.doubled(world)] == []
    assert sorted(world.landed()) == sorted(world.published)
    assert world.deliveries_since() == len(world.published)


@contextmanager
def busy(server: LocalSparkConnect, there: Path) -> Iterator[None]:
    """Occupy both cores of a server with one job of another session."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    there.touch()
    path = str(there)

    # Pickled by value, because it is a local function.
    def wait(number: int) -> int:
        while os.path.exists(path):  # noqa: PTH110 - in the server's Python
            threading.Event().wait(0.05)
        return number

    with session_of(server.url) as session:
        rows = session.range(0, 2, 1, 2).select(F.udf(wait, "long", useArrow=False)("id"))
        thread = threading.Thread(target=rows.collect)
        thread.start()
        try:
            wait_until(lambda: running_jobs(server) == 1, "the server is busy")
            yield
        finally:
            there.unlink()
            thread.join()


def running_jobs(server: LocalSparkConnect) -> int:
    """Number of Spark jobs that the server runs."""
    (application,) = _told(f"{server.ui}api/v1/applications")
    return len(_told(f"{server.ui}api/v1/applications/{application['id']}/jobs?status=running"))


def _told(url: str) -> Any:
    return httpx.get(url, timeout=60).json()
