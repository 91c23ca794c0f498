"""Applying change events and open transactions; a script stands in for `spark-submit`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import LeaseHeldError
from airflow_provider_sfevents.hooks.reschedule import MOST_RESCHEDULES
from airflow_provider_sfevents.hooks.staging_access import writing_state
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.staging.manifest import Receipt, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.operators.conftest import Task

TOPIC = "/data/AccountChangeEvent"
SPARK_SUBMIT = """#!{python}
# Stands in for spark-submit: keeps its arguments, and leaves the receipt of a job that holds two
# events until `--flush`.
import json, sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
with open({said!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
place = Path(unquote(urlsplit(sys.argv[sys.argv.index("--manifest") + 1]).path))
manifest = json.loads(place.read_text())
held = 0 if "--flush" in sys.argv and not {stubborn} else 2
events = manifest["events"]
receipt = dict(version=1, batch_id=manifest["batch_id"], events=events, tables=dict(log=events),
               quarantined=0, written_at="", applied=dict(applied=events - held, open_events=held))
(place.parent / "receipt.json").write_text(json.dumps(receipt))
"""


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """An org of the test's own, with accounts."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01)) as bus:
        bus.define_object("Account")
        yield bus
        bus.check()


class Spark:
    """The jobs that the stand-in was started with."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._said = folder / "said"
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.holds()

    def holds(self, *, stubborn: bool = False) -> None:
        script = self._folder / "spark-submit"
        script.write_text(
            SPARK_SUBMIT.format(python=sys.executable, said=str(self._said), stubborn=stubborn)
        )
        script.chmod(0o755)

    def fails(self, said: str) -> None:
        """Let every job end at once with this text."""
        (self._folder / "spark-submit").write_text(f"#!/bin/sh\necho {shlex.quote(said)}\nexit 1\n")

    def jobs(self) -> list[list[str]]:
        """Arguments of each job, from the application on."""
        return [_from_application(one) for one in self.commands()]

    def commands(self) -> list[list[str]]:
        """All arguments of each job."""
        lines = self._said.read_text().splitlines() if self._said.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    (tmp_path / "bin").mkdir()
    return Spark(tmp_path / "bin", monkeypatch)


def follow(task: Task, **arguments: Any) -> Any:
    lake = task.staging.parent / "lake"
    operator, run = task.prepare(
        SfEventsToSparkOperator,
        topic=TOPIC,
        table=f"{lake}/log",
        table_format="delta",
        current_state=f"{lake}/org",
        **arguments,
    )
    try:
        return run()
    finally:
        # Airflow's hook leaves this pipe open until the process ends.
        if submitted := getattr(operator._hook, "_submit_sp", None):
            submitted.stdout.close()


def test_the_job_that_applies_is_submitted(task: Task, bus: Emulator, spark: Spark) -> None:
    """One job lands and applies, and its counts are in the task's result."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    done = follow(task, deletions="flag", history=True)
    [[application, *arguments]] = spark.jobs()
    assert Path(application).name.startswith("apply-")
    lake = task.staging.parent / "lake"
    assert arguments[2:] == [
        *("--table", f"{lake}/log", "--format", "delta"),
        *("--current-state", f"{lake}/org", "--deletions", "flag", "--history"),
    ]
    assert done["applied"] == {"applied": 0, "open_events": 2}


def test_openlineages_parent_reaches_spark(task: Task, bus: Emulator, spark: Spark) -> None:
    """With Airflow's own argument the Spark job gets the task as its parent in OpenLineage."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    follow(task, openlineage_inject_parent_job_info=True)
    [command] = spark.commands()
    [parent] = [one for one in command if one.startswith("spark.openlineage.parentJobName=")]
    assert parent.startswith("spark.openlineage.parentJobName=orders.")


def test_silence_releases_what_is_held_once(task: Task, bus: Emulator, spark: Spark) -> None:
    """A run without events applies the open transaction once, and is skipped."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    follow(task)
    position = dict(task.positions)
    for _ in range(2):
        with pytest.raises(AirflowSkipException):
            follow(task)
    first, flushed = spark.jobs()
    assert flushed[1:] == [*first[1:], "--flush"]
    assert task.positions == position


def test_a_bound_is_no_silence(task: Task, bus: Emulator, spark: Spark) -> None:
    """An empty run that ended at its time applies no open transaction."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    follow(task)
    with pytest.raises(AirflowSkipException):
        follow(task, idle_seconds=30, max_seconds=0.3)
    assert len(spark.jobs()) == 1


def test_a_job_that_released_nothing_fails(task: Task, bus: Emulator, spark: Spark) -> None:
    """A job whose receipt still has held events fails and is retried."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    follow(task)
    spark.holds(stubborn=True)
    with pytest.raises(AirflowException, match="does not say that the open transaction of batch"):
        follow(task)
    spark.holds()
    with pytest.raises(AirflowSkipException):
        follow(task)


def test_without_tables_of_records_nothing_is_held(task: Task, bus: Emulator, spark: Spark) -> None:
    """A task that only lands has no open transaction, whatever an earlier receipt says."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    follow(task)
    with pytest.raises(AirflowSkipException):
        task.execute(SfEventsToSparkOperator, topic=TOPIC)
    assert len(spark.jobs()) == 1


def test_a_chain_is_not_skipped_while_something_is_held(task: Task, bus: Emulator) -> None:
    """With an open transaction the chain runs on the batch before, and moves no position."""
    bus.create("Account", {"Name": "Nord"})
    fetched = task.execute(SfEventsFetchOperator, task_id="fetch", topic=TOPIC)
    assert fetched["flush"] == "--no-flush"
    assert Path(urlsplit(fetched["apply_application"]).path).name.startswith("apply-")
    land(fetched, held=1)
    task.commit(SfEventsCommitOperator, fetched)
    position = dict(task.positions)
    silent = task.execute(SfEventsFetchOperator, task_id="fetch", topic=TOPIC)
    assert (silent["flush"], silent["events"]) == ("--flush", 0)
    assert silent["spark_manifest"] == fetched["spark_manifest"]
    assert task.commit(SfEventsCommitOperator, silent) == silent
    assert task.positions == position
    land(fetched, held=0)
    with pytest.raises(AirflowSkipException):
        task.execute(SfEventsFetchOperator, task_id="fetch", topic=TOPIC)


def test_one_task_at_a_time_writes_tables_of_records(
    task: Task, bus: Emulator, spark: Spark
) -> None:
    """A second task is rescheduled, then fails naming the holder; later it lands its batch."""
    bus.create("Account", {"Name": "Nord"})
    bus.create("Account", {"Name": "South"})
    state = f"{task.staging.parent}/lake/org"
    with writing_state(task.staging.as_uri(), state + "/", Run(dag="seeding")):
        with pytest.raises(AirflowRescheduleException):
            follow(task)
        task.rescheduled = MOST_RESCHEDULES
        with pytest.raises(AirflowException, match=r"are being written by .*seeding"):
            follow(task)
    assert spark.jobs() == []
    assert follow(task)["reused"] is True
    assert bus.deliveries(TOPIC) == 2
    with (
        writing_state(task.staging.as_uri(), state, Run()),
        pytest.raises(LeaseHeldError),
        writing_state(task.staging.as_uri(), state, Run()),
    ):
        pass


def land(fetched: dict[str, Any], *, held: int) -> None:
    """Leave the receipt of a job that has applied all events but the held ones."""
    receipt = Receipt(
        batch_id=fetched["batch_id"],
        events=fetched["events"],
        tables={"log": fetched["events"]},
        quarantined=0,
        written_at=datetime.now(UTC).isoformat(),
        applied={"open_events": held},
    )
    place = Path(unquote(urlsplit(fetched["spark_manifest"]).path))
    place.with_name("receipt.json").write_text(receipt.to_json())


def _from_application(arguments: list[str]) -> list[str]:
    at = next(n for n, one in enumerate(arguments) if one.endswith(".py"))
    return [urlsplit(arguments[at]).path, *arguments[at + 1 :]]


def test_jars_that_spark_cannot_fetch_are_one_sentence(
    task: Task, bus: Emulator, spark: Spark
) -> None:
    """The error names missing jars and remedy in one sentence; the batch stays staged."""
    bus.create("Account", {"Name": "Nord"})
    spark.fails(
        'Exception in thread "main" java.lang.RuntimeException: '
        "[unresolved dependency: org.example#missing;1.0: not found]"
    )
    with pytest.raises(
        AirflowException, match=r"^Spark could not fetch org\.example:missing:1\.0,"
    ):
        follow(task)
    spark.holds()
    assert follow(task)["reused"]
