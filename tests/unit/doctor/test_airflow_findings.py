from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.doctor.airflow_findings import (
    SeenTriggerer,
    no_database,
    position_finding,
    read_positions,
    triggerer_finding,
    watcher_finding,
)
from airflow_provider_sfevents.doctor.findings import CheckStatus, Finding
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.positions.building import begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position

NOW = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (SeenTriggerer(host="w1", is_alive=True, heartbeat_at="now"), CheckStatus.OK),
        (SeenTriggerer(host="w1", is_alive=False, heartbeat_at="before"), CheckStatus.FAILED),
        (None, CheckStatus.WARNING),
    ],
)
def test_a_dead_triggerer_is_a_failure(seen: SeenTriggerer | None, status: CheckStatus) -> None:
    """A triggerer that has never run is a warning: not every set-up needs one."""
    line = triggerer_finding(seen)
    assert line.status is status
    assert ("airflow triggerer" in line.remedy) is (status is not CheckStatus.OK)


@pytest.mark.parametrize(
    ("alive", "error", "status", "seen"),
    [
        (True, None, CheckStatus.OK, "It runs on here since 2026."),
        (False, None, CheckStatus.FAILED, "orders is watched on no living triggerer."),
        (
            True,
            {"message": "No topic. Create it.", "at": "2026", "ended_at": ""},
            CheckStatus.FAILED,
            "Since 2026: No topic.",
        ),
        (
            True,
            {"message": "No topic.", "at": "2026", "ended_at": "2027"},
            CheckStatus.OK,
            "It runs on here since 2026. Its last error ended at 2027: No topic.",
        ),
    ],
)
def test_a_watcher_that_does_not_listen_is_a_failure(
    alive: bool, error: dict[str, str] | None, status: CheckStatus, seen: str
) -> None:
    """An error that has ended is told, and is no failure."""
    of = {"consumer": "orders", "topic": "/event/Order__e", "asset": "orders", "since": "2026"}
    line = watcher_finding({**of, "triggerer": "here", "alive": alive, "error": error})
    assert (line.checked, line.status, line.seen) == (
        "watcher orders /event/Order__e",
        status,
        seen,
    )


def test_a_task_does_not_see_the_triggerer() -> None:
    """The line says where it is checked."""
    line = no_database()
    assert (line.status, "airflow sfevents doctor" in line.remedy) == (
        CheckStatus.NOT_CHECKED,
        True,
    )


def aged(hours: float) -> Position:
    at = (NOW - timedelta(hours=hours)).isoformat()
    return replace(begun(batch_number=1, replay_id="0a"), committed_at=at, last_event_at=at)


def look(position: Position, keepalive: KeepalivePoint | None = None) -> Finding:
    return position_finding(position, lambda _: keepalive, NOW)


@pytest.mark.parametrize(
    ("hours", "status"),
    [(1.0, CheckStatus.OK), (47.9, CheckStatus.OK), (48.1, CheckStatus.FAILED), (80, "failed")],
)
def test_a_position_fails_a_day_before_its_replay_id_expires(
    hours: float, status: CheckStatus
) -> None:
    """The limit is that of the warning in the task's log: 24 of 72 hours are left."""
    line = look(aged(hours))
    assert line.status == status
    assert bool(line.remedy) is (status != CheckStatus.OK)


@pytest.mark.parametrize(("hours", "status"), [(15.9, CheckStatus.OK), (16.1, CheckStatus.FAILED)])
def test_a_push_topics_position_fails_eight_hours_before(hours: float, status: CheckStatus) -> None:
    """The Streaming API keeps events of PushTopics for a day, so 8 of 24 hours are left."""
    line = look(replace(aged(hours), topic="/topic/Accounts", transport="streaming"))
    assert line.status == status


def test_a_keepalive_makes_a_position_young() -> None:
    """The age counts from the last keepalive."""
    seen_at = (NOW - timedelta(hours=1)).isoformat()
    point = KeepalivePoint(epoch="e1", batch_number=1, replay_id="0b", seen_at=seen_at, after="")
    assert look(aged(60), point).status is CheckStatus.OK


def test_a_position_without_a_replay_id_has_no_age() -> None:
    """A position at `earliest` is right."""
    line = look(begun())
    assert (line.status, "earliest" in line.seen) == (CheckStatus.OK, True)


def test_a_loss_window_fails_until_it_is_acknowledged() -> None:
    """So does one before the next batch; a window that is recorded later fails again."""
    window = LossWindow(
        after="0a", after_event_at="", start="earliest", at=NOW.isoformat(), why="it expired"
    )
    for position in (replace(aged(1), loss=window), replace(aged(1), losses=(window,))):
        line = look(position)
        assert (line.status, "it expired" in line.seen) == (CheckStatus.FAILED, True)
        assert line.remedy.endswith(f"position acknowledge {position.consumer} {position.topic}")
        known = replace(position, losses_acknowledged=window.at)
        assert look(known).status is CheckStatus.OK
        later = replace(window, at=(NOW + timedelta(minutes=1)).isoformat())
        assert look(replace(known, loss=later)).status is CheckStatus.FAILED


def test_a_worker_with_a_slow_clock_hides_no_loss_window() -> None:
    """Windows are new by their order, so one of an earlier time than those acknowledged is new."""
    window = LossWindow(after="0a", start="earliest", at=NOW.isoformat(), why="it expired")
    slow = replace(window, at=(NOW - timedelta(minutes=1)).isoformat())
    known = replace(aged(1), losses=(window,), losses_acknowledged=window.at)
    assert known.new_losses == ()
    assert look(replace(known, loss=slow)).status is CheckStatus.FAILED
    assert replace(known, losses=(window, slow), losses_acknowledged=slow.at).new_losses == ()


def test_records_that_are_no_position_are_failures() -> None:
    """Positions come sorted; a broken record and a copy have a line with their location."""
    first, later = begun(), begun(consumer="z")
    a, z = (f"Variable {variable_key(one.consumer, one.topic)!r}" for one in (first, later))
    records = [(z, later.to_json()), ("X", "rubbish"), (a, first.to_json())]
    records.append((f"{a[:-1]}_old'", first.to_json()))
    positions, [broken, copied] = read_positions(records)
    assert [where for where, _ in positions] == [a, z]
    assert (broken.checked, broken.status) == ("position X", CheckStatus.FAILED)
    assert "holds the position of consumer 'load' on /event/Order__e" in copied.seen
    back = f"copy it back to {variable_key(first.consumer, first.topic)!r}; then delete this one."
    assert copied.remedy == f"If it is nowhere else, {back}"
