"""Alerts on positions, each told once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.doctor.position_alerts import (
    AGAIN,
    AlertKind,
    FailureCount,
    alerts_of,
    count_failures,
    untold,
)
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.positions.building import begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position

NOW = datetime(2026, 1, 10, tzinfo=UTC)
WINDOW = LossWindow(after="0a", start="earliest", at=NOW.isoformat(), why="it expired")


def committed(hours_ago: float, **changes: Any) -> Position:
    at = (NOW - timedelta(hours=hours_ago)).isoformat()
    return begun(batch_number=4, replay_id="0a", committed_at=at, last_event_at=at, **changes)


def kinds(position: Position, failed: int = 0) -> list[AlertKind]:
    return [one.kind for one in alerts_of(position, failed, NOW)]


@pytest.mark.parametrize(
    ("hours", "said"), [(63.9, ""), (64.1, "expires in 7.9 h"), (73, "expired 60 min ago")]
)
def test_a_replay_id_is_an_alert_eight_hours_before_it_expires(hours: float, said: str) -> None:
    """The alert comes while events can still be fetched, and stays after the expiry."""
    found = alerts_of(committed(hours), 0, NOW)
    assert [one.kind for one in found] == [AlertKind.EXPIRY_AHEAD] * bool(said)
    assert all(said in one.seen for one in found)


@pytest.mark.parametrize(("failed", "alert"), [(2, False), (3, True)])
def test_three_failures_are_an_alert(failed: int, alert: bool) -> None:
    """It names the batch that does not land, and the command that finds the cause."""
    found = alerts_of(committed(1), failed, NOW)
    assert [(one.about, "airflow sfevents doctor" in one.remedy) for one in found] == (
        [("e1-5", True)] if alert else []
    )


def test_a_loss_window_is_an_alert_before_and_after_its_batch() -> None:
    """The window before the next batch and those of committed batches count, for a week."""
    pending, recorded = committed(1, loss=WINDOW), committed(1, losses=(WINDOW,))
    old = replace(WINDOW, at=(NOW - AGAIN).isoformat())
    assert kinds(pending) == kinds(recorded) == [AlertKind.LOSS_WINDOW]
    assert alerts_of(pending, 0, NOW)[0].about == alerts_of(recorded, 0, NOW)[0].about
    assert kinds(committed(1, losses=(old,))) == []
    assert kinds(committed(1, loss=WINDOW, losses_acknowledged=WINDOW.at)) == []


def test_an_alert_is_told_once() -> None:
    """The same occasion is not told again; another one of the same kind is."""
    [first] = alerts_of(committed(65), 0, NOW)
    [later] = alerts_of(committed(66), 0, NOW)
    assert untold([first, later], [first.to_extra()]) == [later]
    assert untold([first], [{"kind": "rubbish"}]) == [first]


def test_failures_count_from_the_first_look_after_a_commit() -> None:
    """Cleared instances do not count, and the next batch begins with none."""
    first = count_failures(committed(1), 5, None)
    assert first == FailureCount(batch="e1-4", before=5)
    assert count_failures(committed(1), 9, first) == first
    assert count_failures(committed(1), 2, first).before == 2
    assert count_failures(replace(committed(1), batch_number=5), 9, first).before == 9
