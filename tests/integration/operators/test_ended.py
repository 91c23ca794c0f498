"""Tasks that are ended while they wait for other things than events."""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Run
from tests.integration.operators.conftest import ORDERS, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

LONG = 60.0

_AT: dict[str, Callable[[], None]] = {}
"""Function to call when a step of the package is reached; for `at`."""


def _hear(event: str, said: tuple[Any, ...]) -> None:
    if event == steps.EVENT and (act := _AT.pop(said[0], None)):
        act()


sys.addaudithook(_hear)


@contextmanager
def at(step: str, act: Callable[[], None]) -> Iterator[None]:
    """Call a function when the step is reached for the first time."""
    _AT[step] = act
    try:
        yield
    finally:
        reached = _AT.pop(step, None) is None
    assert reached, f"{step} was not reached"


@pytest.fixture
def spark_submit(tmp_path: Path) -> Path:
    """A `spark-submit` that reports its start, and waits to be ended."""
    script = tmp_path / "spark-submit"
    script.write_text(f"#!/bin/sh\necho $$ >> {script}.started\nexec sleep 600\n")
    script.chmod(0o755)
    return script


def started(spark_submit: Path) -> list[int]:
    """Pids of the jobs that were started."""
    file = spark_submit.with_suffix(".started")
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def execute(run: Callable[[], Any], meanwhile: Callable[[], None]) -> BaseException:
    """Execute a task that is ended; returns its error."""
    failed: list[BaseException] = []

    def execute() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    running = threading.Thread(target=execute)
    running.start()
    meanwhile()
    running.join(LONG)
    assert not running.is_alive()
    return failed[0]


def hold_from_another_machine(staging: Path) -> Path:
    """Take the next batch as a machine without network; returns the folder of leases."""
    [leases] = [one for one in staging.rglob(layout.LEASES) if one.parent.name.isdigit()]
    holder = LeaseHolder.here(Run(dag="orders", run="r0", task="land"), "")
    elsewhere = replace(holder, host="host-b", pid_space="another boot", token="b")
    (leases / "0002.json").write_text(elsewhere.to_json())
    (leases / "0002.heartbeat").write_text("7 heartbeats, 0 received\n")
    return leases


def test_a_stop_ends_the_watch_of_another_machines_lease(
    task: Task, bus: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop ends the watch of another machine's lease, without a lease of its own."""
    caplog.set_level(logging.INFO, "airflow_provider_sfevents")
    last = bus.events(ORDERS)[-1]
    empty = task.execute(
        SfEventsFetchOperator, initial_replay=last["replay_id"], skip_when_empty=False
    )
    assert empty["events"] == 0
    leases = hold_from_another_machine(task.staging)
    operator, run = task.prepare(SfEventsFetchOperator, initial_replay=last["replay_id"])

    def end() -> None:
        until = time.monotonic() + LONG
        while "watching its heartbeat" not in caplog.text:
            assert time.monotonic() < until
            time.sleep(0.01)
        operator.on_kill()

    failed = execute(run, end)
    assert isinstance(failed, AirflowException)
    assert "The task was ended; it was watching another task's lease" in str(failed)
    assert not (leases / "0003.json").exists()


@pytest.mark.parametrize(
    "step", [steps.AUTHENTICATED, steps.DELIVERED, steps.MANIFEST_WRITTEN, steps.SPARK_NEXT]
)
def test_a_task_that_was_ended_does_not_start_spark(
    task: Task, bus: Emulator, spark_submit: Path, step: str
) -> None:
    """After a stop Spark is not started; the batch stays staged, its lease is released."""
    operator, run = task.prepare(SfEventsToSparkOperator, spark_binary=str(spark_submit))
    delivered = bus.deliveries(ORDERS)
    with at(step, operator.on_kill), pytest.raises(AirflowException, match="The task was ended"):
        run()
    assert started(spark_submit) == []
    assert [one for one in task.left_behind if layout.LEASES in one] == []
    came = bus.deliveries(ORDERS) - delivered
    assert task.execute(SfEventsFetchOperator)["events"] == 1
    assert came <= 1
    assert bus.deliveries(ORDERS) - delivered == 1


def test_a_task_that_is_ended_while_spark_works_ends_spark(
    task: Task, bus: Emulator, spark_submit: Path
) -> None:
    """A stop ends Spark, and the next try lands the batch without a delivery."""
    operator, run = task.prepare(SfEventsToSparkOperator, spark_binary=str(spark_submit))
    delivered = bus.deliveries(ORDERS)

    def end() -> None:
        until = time.monotonic() + LONG
        while not started(spark_submit):
            assert time.monotonic() < until
            time.sleep(0.01)
        operator.on_kill()

    failed = execute(run, end)
    operator._hook._submit_sp.stdout.close()
    assert isinstance(failed, AirflowException)
    [pid] = started(spark_submit)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert [one for one in task.left_behind if layout.LEASES in one] == []
    again = task.execute(SfEventsFetchOperator)
    assert (again["reused"], bus.deliveries(ORDERS) - delivered) == (True, 1)
