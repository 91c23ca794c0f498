"""Reading an entity snapshot for Spark; a script stands in for `spark-submit`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.hooks.reschedule import MOST_RESCHEDULES
from airflow_provider_sfevents.hooks.staging_access import writing_state
from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.operators.conftest import Task

SPARK_SUBMIT = """#!{python}
# Stands in for spark-submit: keeps its options and the files to read, and leaves the report.
import json, sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
def place(option):
    return Path(unquote(urlsplit(options[option]).path))
at = next(n for n, one in enumerate(sys.argv) if one.endswith(".py"))
given, options, flags = sys.argv[at + 1 :], {{}}, []
while given:
    one = given.pop(0)
    if given and not given[0].startswith("--"):
        options[one] = given.pop(0)
    else:
        flags.append(one)
read = {{path.name: path.read_text() for path in sorted(place("--records").iterdir())}}
gone = place("--deleted-ids").read_text().split() if "--deleted-ids" in options else []
schema = json.loads(place("--event-schema").read_text())
told = dict(options=options, flags=flags, read=read, gone=gone, schema=schema)
Path({said!r}).write_text(json.dumps(told))
if {reports}:
    place("--report").write_text(json.dumps(dict(replaced=2, deleted=0)))
"""


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(half_close_seconds=0.01)) as bus:
        bus.create("Account", {"Name": "Nord", "BillingCity": "Porto"})
        bus.create("Account", {"Name": "South"})
        yield bus
        bus.check()


class Spark:
    """The options and files that the stand-in was started with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reports(does=True)

    def reports(self, *, does: bool) -> None:
        script = self._folder / "spark-submit"
        said = str(self._folder / "said")
        script.write_text(SPARK_SUBMIT.format(python=sys.executable, said=said, reports=does))
        script.chmod(0o755)

    def told(self) -> Any:
        place = self._folder / "said"
        return json.loads(place.read_text()) if place.exists() else None


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Spark(folder)


def take_snapshot(task: Task, **arguments: Any) -> Any:
    known = {"entity": "Account", "current_state": "/lake/org", "table_format": "delta"}
    operator, run = task.prepare_alone(SfEventsEntitySnapshotOperator, **{**known, **arguments})
    try:
        return run()
    finally:
        # Airflow's hook leaves this pipe open until the process ends.
        if submitted := getattr(operator._hook, "_submit_sp", None):
            submitted.stdout.close()


def reads_left(task: Task) -> list[str]:
    return [path.name for path in (task.staging / "_reads").rglob("*") if path.is_file()]


def test_an_object_is_read_and_handed_to_spark(task: Task, bus: Emulator, spark: Spark) -> None:
    """Spark gets all records, the events' schema and the read's begin; then they are removed."""
    done = take_snapshot(task)
    told = spark.told()
    [(name, text)] = told["read"].items()
    assert (name, text.count("\n")) == ("part-00001.csv", 3)
    assert "Porto" in text
    assert told["schema"]["name"] == "AccountChangeEvent"
    assert told["flags"] == []
    assert told["options"]["--read-at"] == done["read_at"]
    assert told["options"]["--records-format"] == "csv"
    assert (done["records"], done["whole"], done["read_by"]) == (2, True, "bulk")
    assert done["applied"] == {"replaced": 2, "deleted": 0}
    assert reads_left(task) == []


def test_single_records_are_read_over_rest(task: Task, bus: Emulator, spark: Spark) -> None:
    """Missing single records are passed as deleted, and others are not touched."""
    [one, _] = [record["Id"] for record in bus.records("Account")]
    gone = "001000000000999AAA"
    done = take_snapshot(
        task, record_ids=[one, gone], deletions="flag", history=True, lacking=["Old__c"]
    )
    told = spark.told()
    [(name, text)] = told["read"].items()
    assert (name, json.loads(text)["Id"]) == ("part-00001.jsonl", one)
    assert told["gone"] == [gone]
    assert sorted(told["flags"]) == ["--history", "--partial"]
    assert (told["options"]["--deletions"], told["options"]["--lacking"]) == ("flag", "Old__c")
    assert (done["records"], done["deleted"], done["whole"]) == (1, 1, False)


def test_a_job_without_a_report_has_done_nothing(task: Task, bus: Emulator, spark: Spark) -> None:
    """A job without a report fails the task, and the read stays."""
    spark.reports(does=False)
    with pytest.raises(AirflowException, match="so the entity snapshot may not have been applied"):
        take_snapshot(task)
    assert "read.json" in reads_left(task)


def test_a_read_for_other_tables_stays(task: Task, bus: Emulator, spark: Spark) -> None:
    """A snapshot removes its own read and old ones, and not those of tasks that may still run."""
    spark.reports(does=False)
    with pytest.raises(AirflowException):
        take_snapshot(task, current_state="/lake/other")
    others = reads_left(task)
    [entity] = (task.staging / "_reads").glob("*/Account")
    for name in ("20200101T000000-0a", "not-a-read"):
        (entity / name).mkdir()
        (entity / name / name).touch()
    spark.reports(does=True)
    take_snapshot(task)
    assert sorted(reads_left(task)) == sorted([*others, "not-a-read"])


def test_nothing_is_read_while_another_run_writes_the_tables(
    task: Task, bus: Emulator, spark: Spark
) -> None:
    """While another task writes the tables, the task gives way before reading."""
    with writing_state(task.staging.as_uri(), "/lake/org", Run(dag="following")):
        with pytest.raises(AirflowRescheduleException):
            take_snapshot(task)
        task.rescheduled = MOST_RESCHEDULES
        with pytest.raises(AirflowException, match=r"being written by .*following") as raised:
            take_snapshot(task)
    assert not isinstance(raised.value, AirflowFailException)
    assert (spark.told(), reads_left(task)) == (None, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"entity": "Acount"}, "AcountChangeEvent"),
        ({"record_ids": []}, "is no list of record ids"),
        ({"record_ids": "001000000000001AAA"}, "is no list of record ids"),
        ({"record_ids": ["001"]}, "is no record id of Account"),
        ({"spark_conn_id": "nowhere"}, "'nowhere' is not defined"),
    ],
)
def test_a_mistake_is_told_before_anything_is_read(
    task: Task, bus: Emulator, spark: Spark, arguments: dict[str, Any], said: str
) -> None:
    """A wrong argument fails for good before anything is read."""
    with pytest.raises(AirflowFailException, match=said):
        take_snapshot(task, **arguments)
    assert (spark.told(), reads_left(task)) == (None, [])
