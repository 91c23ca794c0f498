"""Operators with a Spark Connect server: landing, and what is refused before a delivery."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from scripts.local_spark_connect import ISOLATION, LocalSparkConnect
from tests.harness.jars import Jars, or_skip
from tests.integration.operators.conftest import ORDERS
from tests.integration.operators.test_ended import at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.operators.conftest import Task

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

MOST_CALLS = 60
STATIC = {"spark.sql.extensions": "org.example.Mine", "spark.executor.memory": "3g"}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, spark_environment: dict[str, str]
) -> Iterator[LocalSparkConnect]:
    """A server with Delta, whose Python has this package."""
    jars = [str(one) for one in or_skip(lambda: Jars().delta)]
    folder, environment = tmp_path_factory.mktemp("server"), {**os.environ, **spark_environment}
    with LocalSparkConnect.running(folder, environment, jars=jars) as server:
        yield server


@pytest.fixture
def connected(task: Task, server: LocalSparkConnect) -> Task:
    """A task whose Spark connection is the server's, with time for a busy machine."""
    return connect(task, server)


def connect(task: Task, server: LocalSparkConnect) -> Task:
    task.connect("spark_default", server.connection())
    task.monkeypatch.setenv("AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS", "300")
    return task


def test_a_batch_lands_in_delta(
    connected: Task,
    server: LocalSparkConnect,
    bus: Emulator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Events are in the table by the path, the position has moved, and the log has the session."""
    before = dict(os.environ)
    conf = {"spark.sql.catalog.lake.token": "hidden-token"}
    with caplog.at_level("INFO"):
        done = connected.execute(table_format="delta", conf=conf)
    assert (done["events"], sum(done["tables"].values())) == (1, 1)
    assert list((tmp_path / "lake").rglob("_delta_log/*.json"))
    assert len(connected.positions) == 1
    assert f"Spark UI: {server.ui}." in caplog.text
    [(statements, calls)] = re.findall(
        r"session [0-9a-f-]{36}: (\d+) statements in (\d+) calls; last operation [0-9a-f-]{36}",
        caplog.text,
    )
    assert 0 < int(statements) < int(calls) <= MOST_CALLS
    assert caplog.text.count("Spark Connect at sc://127.0.0.1:") == 1
    assert ("session " in caplog.text, "hidden-token" in caplog.text) == (True, False)
    assert dict(os.environ) == before
    bus.publish(ORDERS, [{"Order_Number__c": "A-2"}])
    assert connected.execute(table_format="delta")["events"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"conf": STATIC}, "conf has spark.sql.extensions, spark.executor.memory, which a Spark C"),
        ({"jars": "mine.jar", "num_executors": 2}, "jars, num_executors: only spark-submit takes"),
        ({"table_format": "iceberg", "table": "lake.orders"}, r"Iceberg|iceberg"),
    ],
)
def test_what_the_server_cannot_do_is_refused_before_a_delivery(
    connected: Task, bus: Emulator, arguments: dict[str, Any], said: str
) -> None:
    """Fixed settings, arguments of spark-submit and a missing format fail for good."""
    delivered = bus.deliveries(ORDERS)
    with pytest.raises(AirflowFailException, match=said):
        connected.execute(**{"table_format": "delta", **arguments})
    assert bus.deliveries(ORDERS) == delivered


def test_a_server_that_is_not_there_is_found_before_a_delivery(task: Task, bus: Emulator) -> None:
    """The task fails, and may be retried."""
    task.connect("spark_default", {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1})
    task.monkeypatch.setenv("AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS", "0.5")
    delivered = bus.deliveries(ORDERS)
    said: Any
    with pytest.raises(AirflowException, match=r"sc://127.0.0.1:1 does not answer") as said:
        task.execute(table_format="delta")
    assert not isinstance(said.value, AirflowFailException)
    assert (bus.deliveries(ORDERS), task.left_behind) == (delivered, [])


def test_a_task_ended_while_spark_runs_is_landed_by_the_next(
    connected: Task, bus: Emulator
) -> None:
    """The end interrupts the statements; the next run lands the batch without a delivery."""
    operator, run = connected.prepare(SfEventsToSparkOperator, table_format="delta")

    def end_soon() -> None:
        threading.Timer(0.5, operator.on_kill).start()

    with (
        at(steps.LANDING_BEGAN, end_soon),
        pytest.raises(AirflowException, match=r"ended while Spark ran|no further statement"),
    ):
        run()
    delivered = bus.deliveries(ORDERS)
    done = connected.execute(table_format="delta", idle_seconds=0.1)
    assert (done["reused"], bus.deliveries(ORDERS)) == (True, delivered)
    assert sum(done["tables"].values()) == done["events"]


def test_a_session_that_ended_after_events_were_staged_is_replaced(
    connected: Task, bus: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """The same try lands the batch in a new session, without a further delivery."""
    operator, run = connected.prepare(SfEventsToSparkOperator, table_format="delta")
    delivered = bus.deliveries(ORDERS)

    def expire() -> None:
        operator._connect_session.spark.client.release_session()

    with at(steps.LANDING_BEGAN, expire):
        done = run()
    assert "The job runs again in a new one." in caplog.text
    assert sum(done["tables"].values()) == done["events"] == bus.deliveries(ORDERS) - delivered


@pytest.mark.full
@pytest.mark.parametrize("isolation", ["true", "false"])
def test_modules_are_sent_to_an_older_package_only_where_sessions_are_isolated(
    task: Task, bus: Emulator, tmp_path: Path, spark_environment: dict[str, str], isolation: str
) -> None:
    """Without isolation they would reach all sessions; Delta is missing on this server, too."""
    older = tmp_path / "older" / "airflow_provider_sfevents"
    older.mkdir(parents=True)
    (older / "__init__.py").touch()
    environment = {**os.environ, **spark_environment, "PYTHONPATH": str(older.parent)}
    conf, delivered = {ISOLATION: isolation}, bus.deliveries(ORDERS)
    with LocalSparkConnect.running(tmp_path, environment, conf=conf) as server:
        connect(task, server)
        refused = "delta" if isolation == "true" else f"this release of .*{ISOLATION}=true"
        with pytest.raises(AirflowFailException, match=refused):
            task.execute(table_format="delta")
        assert bus.deliveries(ORDERS) == delivered
        if isolation == "true":
            done = task.execute()
            assert sum(done["tables"].values()) == done["events"] > 0
