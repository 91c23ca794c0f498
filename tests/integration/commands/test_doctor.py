"""`airflow sfevents doctor`, with Airflow's database."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.variable import Variable
from airflow.utils.session import create_session
from sqlalchemy import delete

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.staging.manifest import LossWindow, Run
from tests.integration.commands.registered import write_task
from tests.unit.positions.building import begun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.commands.conftest import Answer, Hands

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def org() -> Iterator[Emulator]:
    with Emulator(sample=True) as bus:
        yield bus
        bus.check()


@pytest.fixture
def ask(hands: Hands, org: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(org.connection()))
    beat(seconds_ago=1)
    yield hands
    beat(seconds_ago=None)


def beat(seconds_ago: float | None) -> None:
    """Let a triggerer have its last heartbeat then; None: none has ever run."""
    with create_session() as session:
        session.execute(delete(Job).where(Job.job_type == "TriggererJob"))
        if seconds_ago is not None:
            at = datetime.now(UTC) - timedelta(seconds=seconds_ago)
            job = Job(job_type="TriggererJob", state="running", latest_heartbeat=at)
            job.hostname = "w1.acme.example"
            session.add(job)


def diagnose(hands: Hands, *words: str) -> Answer:
    return hands.airflow("sfevents", "doctor", "--staging", f"file://{hands.staging}", *words)


def rows(hands: Hands, *words: str) -> list[dict[str, Any]]:
    answer = diagnose(hands, *words, "-o", "json")
    found: list[dict[str, Any]] = json.loads(answer.said)
    return found


def failed(found: list[dict[str, Any]]) -> list[str]:
    return [one["checked"] for one in found if one["status"] == "failed"]


def test_a_healthy_set_up(ask: Hands) -> None:
    """There is no failed line, each line names host and process, and `--fail` exits with 0."""
    found = rows(ask, "--topic", "/event/Order__e", "--topic", "/data/AccountChangeEvent", "--fail")
    assert failed(found) == []
    assert "topic /event/Order__e" in [one["checked"] for one in found]
    assert {one["where"] for one in found} == {f"{socket.gethostname()}, process {os.getpid()}"}
    assert diagnose(ask, "--fail").refused == ""


def test_people_see_a_table_and_programs_the_same_lines(ask: Hands) -> None:
    """The table has the columns of JSON, and the place once."""
    said = diagnose(ask).words
    assert "status | checked | seen | remedy" in said
    assert f"Checked on {socket.gethostname()}, process {os.getpid()}." in said
    assert "status: not checked" in diagnose(ask, "-o", "yaml").said


def test_a_failure_is_an_exit_code_if_it_is_wanted(ask: Hands) -> None:
    """Without `--fail` the lines are shown and the exit code is 0."""
    words = ("--topic", "/event/Oder__e")
    assert diagnose(ask, *words).refused == ""
    refused = diagnose(ask, *words, "--fail").refused
    assert refused.startswith("1 check failed: topic /event/Oder__e. First: Looking up /event/Oder")


@pytest.mark.parametrize(
    ("seconds_ago", "status"), [(1.0, "ok"), (3600.0, "failed"), (None, "warning")]
)
def test_the_triggerers_heartbeat(ask: Hands, seconds_ago: float | None, status: str) -> None:
    """A heartbeat of an hour ago is that of a dead triggerer."""
    beat(seconds_ago)
    found = rows(ask)
    [line] = [one for one in found if one["checked"] == "triggerer"]
    assert line["status"] == status
    assert failed(found) == (["triggerer"] if status == "failed" else [])


def test_all_positions_with_their_topics(ask: Hands, org: Emulator) -> None:
    """An old position fails; its topic is checked in the connection's org only."""
    at = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    young = {"batch_number": 1, "replay_id": "0a", "committed_at": at, "last_event_at": at}
    name = f"position {ask.consumer} /event/Order__e"
    ask.keep(begun(org_id=org.org.org_id, **young))
    found = rows(ask, "--all")
    assert name in [one["checked"] for one in found if one["status"] == "ok"]
    assert "topic /event/Order__e" in [one["checked"] for one in found if one["status"] == "ok"]
    ask.keep(begun(batch_number=1, replay_id="0a"))
    found = rows(ask, "--all")
    assert name in failed(found)
    [topic] = [one for one in found if one["checked"] == "topic /event/Order__e"]
    assert (topic["status"], "of org 00D000000000001AAA" in topic["seen"]) == ("not checked", True)
    assert name not in [one["checked"] for one in rows(ask)]


def test_positions_that_cannot_be_looked_at_are_a_line(
    ask: Hands, org: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other lines are shown: of a wrong staging area, and without Airflow's database."""
    ask.keep(begun(org_id=org.org.org_id))
    words = ("sfevents", "doctor", "--all", "-o", "json")
    answer = ask.airflow(*words, "--staging", "bogus://bucket/area")
    assert failed(json.loads(answer.said)) == ["staging", "positions"]

    def no_database() -> list[tuple[str, str]]:
        raise TransportError("Variables could not be read.")

    monkeypatch.setattr("airflow_provider_sfevents.commands.doctor.found", no_database)
    lines = rows(ask, "--all")
    assert failed(lines) == ["positions"]
    assert "topics without a position" not in [one["checked"] for one in lines]


def test_repeated_failures_of_a_paused_dag(ask: Hands, org: Emulator) -> None:
    """Three failed tasks since the last commit fail the position's line, and the command."""
    dag = f"paused_{ask.consumer}"
    with create_session() as session:
        session.merge(DagBundleModel(name="paused"))
        session.flush()
        session.add(DagModel(dag_id=dag, bundle_name="paused", fileloc="x.py", is_paused=True))
    at = datetime.now(UTC) - timedelta(hours=1)
    young = {"batch_number": 1, "replay_id": "0a", "committed_at": at.isoformat()}
    ask.keep(begun(org_id=org.org.org_id, committed_by=Run(dag=dag, task="load"), **young))
    name = f"position {ask.consumer} /event/Order__e"
    for number in range(3):
        assert name not in failed(rows(ask, "--all"))
        write_task(dag, f"run-{number}", "failed", datetime.now(UTC))
    assert name in diagnose(ask, "--all", "--fail").refused


def test_a_loss_window_fails_until_it_is_acknowledged(ask: Hands, org: Emulator) -> None:
    """The command that its line names makes the line right."""
    at = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    window = LossWindow(after="0a", start="earliest", at=at, why="it expired")
    young = {"batch_number": 1, "replay_id": "0b", "committed_at": at, "last_event_at": at}
    name = f"position {ask.consumer} /event/Order__e"
    ask.keep(begun(org_id=org.org.org_id, losses=(window,), **young))
    assert name in diagnose(ask, "--all", "--fail").refused
    [line] = [one for one in rows(ask, "--all") if one["checked"] == name]
    command = line["remedy"].partition("Then: airflow ")[2].split()
    where = f"file://{ask.staging}"
    assert ask.airflow(*command, "--yes", "--staging", where).refused == ""
    assert name not in failed(rows(ask, "--all"))


def test_a_record_that_is_no_position_fails(ask: Hands) -> None:
    """The line has the record's location."""
    Variable.set("sfevents.zz_not_one.x", "rubbish")
    try:
        assert "position Variable 'sfevents.zz_not_one.x'" in failed(rows(ask, "--all"))
    finally:
        Variable.delete("sfevents.zz_not_one.x")
