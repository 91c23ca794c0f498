from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.batches.recovery import FetchPlan
from airflow_provider_sfevents.positions.record import Position, lose, move_on
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.manifest import LossWindow, Part

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 10, tzinfo=UTC)
PART = Part(
    path="a", start="0a", end="0b", first_ordinal=0, events=7, bytes=1, sha256="", schemas=()
)


def ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat()


def position(committed: float, event: float | None = None, replay_id: str = "0a") -> Position:
    return Position(
        org_id="00D",
        instance_url="https://acme.my.salesforce.com",
        topic="/event/Order__e",
        consumer="orders",
        epoch="e1",
        batch_number=0 if replay_id == "earliest" else 1,
        replay_id=replay_id,
        committed_at=ago(committed),
        last_event_at="" if event is None else ago(event),
    )


def keepalive_point(seen: float) -> KeepalivePoint:
    return KeepalivePoint(epoch="e1", batch_number=1, replay_id="0b", seen_at=ago(seen), after="0a")


def moved_on(at: Position, hours: float) -> Position:
    """Return a position with a keepalive of so many hours ago."""
    return move_on(at, "0b", ago(hours))


def lost(at: Position, pinned: str, hours: float) -> Position:
    """Return a position with a loss window of so many hours ago."""
    return lose(at, LossWindow(after="0a", start="latest", pinned=pinned, at=ago(hours), why="old"))


@pytest.mark.parametrize(
    ("at", "seen", "hours"),
    [
        (position(committed=5), None, 5),
        (position(committed=5, event=30), None, 30),
        (position(committed=5, event=3), None, 5),
        (position(committed=5, event=500_000), None, 5),
        (position(committed=50, event=60), keepalive_point(2), 2),
        (moved_on(position(committed=50), 4), None, 4),
        (moved_on(position(committed=50), 4), keepalive_point(2), 2),
        (moved_on(position(committed=50), 4), keepalive_point(9), 4),
        (lost(position(committed=50), pinned="0c", hours=7), None, 7),
    ],
    ids=[
        "commit",
        "event",
        "event of the future",
        "event of 1970",
        "keepalive_point",
        "keepalive in the position",
        "a later keepalive point",
        "an older keepalive point",
        "after a loss window",
    ],
)
def test_a_replay_id_is_as_old_as_its_event(
    at: Position, seen: KeepalivePoint | None, hours: float
) -> None:
    """A replay id's age counts from its keepalive, its event's plausible time, or the commit."""
    assert replay_id_age.known_since(at, seen) == NOW - timedelta(hours=hours)


def test_a_preset_has_no_age() -> None:
    """`earliest` and an unpinned `latest` have no age, because neither names an event."""
    assert replay_id_age.known_since(position(committed=500, replay_id="earliest"), None) is None
    assert (
        replay_id_age.known_since(lost(position(committed=500), pinned="", hours=1), None) is None
    )
    assert not replay_id_age.is_old(None, NOW)
    assert replay_id_age.warning("t", None, NOW) == ""


@pytest.mark.parametrize(("hours", "old"), [(11, False), (13, True)])
def test_half_a_day_is_old(hours: float, old: bool) -> None:
    """A replay id older than twelve hours is old, so that `idle_seconds` waits for a keepalive."""
    assert replay_id_age.is_old(NOW - timedelta(hours=hours), NOW) is old


@pytest.mark.parametrize(
    ("start", "kept", "learns"),
    [
        (LATEST, (), True),
        (ReplayPoint("0a"), (), True),
        (ReplayPoint("0a"), (PART,), False),
    ],
    ids=["latest", "old", "old, with staged events"],
)
def test_a_fetch_that_needs_a_fresh_replay_id(
    tmp_path: Path, start: ReplayPoint, kept: tuple[Part, ...], *, learns: bool
) -> None:
    """Silence does not end a fetch that needs a keepalive; staged events have a fresh replay id."""
    request = BatchRequest(topic="/event/Order__e", consumer="orders", learn_seconds=280)
    folder = StagingArea(UPath(tmp_path)).topic("00D", "orders", "/event/Order__e")
    plan = FetchPlan(start=start, kept=kept)
    bounds = replay_id_age.bounds(request, position(committed=13), plan, folder, NOW)
    assert bounds.learn_seconds == (280 if learns else None)


@pytest.mark.parametrize(
    ("hours", "said"),
    [(47, None), (50, "50 h old and expires in 22 h"), (73, "73 h old and may have expired")],
)
def test_a_warning_comes_ahead_of_the_loss(hours: float, said: str | None) -> None:
    """Each run warns from a day before the bus drops the position's replay id."""
    warning = replay_id_age.warning("/event/Order__e", NOW - timedelta(hours=hours), NOW)
    assert said in warning if said else warning == ""
