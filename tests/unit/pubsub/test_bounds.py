"""Bounds of a batch: its end and its room, without a clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.bounds import (
    BatchTally,
    Bounds,
    StagedProgress,
    ended_by,
    is_short_silence,
    room_events,
    seconds_left,
    time_left,
    wanted,
)


def tally(**values: Any) -> BatchTally:
    return BatchTally(**{"started_at": 1000.0, "silent_since": 1000.0, **values})


@pytest.mark.parametrize(
    ("bounds", "so_far", "now", "ended"),
    [
        pytest.param({}, {}, 1000.0, None, id="nothing yet"),
        pytest.param({"max_events": 5}, {"events": 4}, 1000.0, None, id="one more fits"),
        pytest.param({"max_events": 5}, {"events": 5}, 1000.0, "max_events", id="full"),
        pytest.param(
            {"max_events": 5}, {"events": 2, "already": StagedProgress(events=3)}, 1000.0,
            "max_events",
            id="full with earlier parts",
        ),
        pytest.param({"max_bytes": 10}, {"bytes": 9}, 1000.0, None, id="one byte left"),
        pytest.param({"max_bytes": 10}, {"bytes": 12}, 1000.0, "max_bytes", id="bytes"),
        pytest.param(
            {"max_bytes": 10}, {"already": StagedProgress(events=1, bytes=10)}, 1000.0, "max_bytes",
            id="bytes of earlier parts",
        ),
        pytest.param({}, {"until_reached": True}, 1000.0, "until", id="until"),
        pytest.param({"max_seconds": 5}, {"silent_since": 1004.0}, 1005.0, "max_seconds", id="time"),
        pytest.param({"idle_seconds": 5}, {}, 1004.9, None, id="not silent enough"),
        pytest.param({"idle_seconds": 5}, {}, 1005.0, "idle_seconds", id="silent"),
        pytest.param(
            {"idle_seconds": 5, "learn_seconds": 60}, {}, 1030.0, None, id="nothing learned yet"
        ),
        pytest.param(
            {"idle_seconds": 5, "learn_seconds": 60}, {"learned": True}, 1030.0, "idle_seconds",
            id="learned",
        ),
        pytest.param(
            {"idle_seconds": 5, "learn_seconds": 60}, {}, 1060.0, "idle_seconds", id="learning over"
        ),
        pytest.param({}, {"caught_up": True}, 1000.0, None, id="a keepalive ends nothing"),
        pytest.param(
            {"keepalive_ends": True}, {"caught_up": True}, 1000.0, "idle_seconds",
            id="nothing is pending",
        ),
        pytest.param(
            {"max_events": 1, "max_seconds": 1}, {"events": 1}, 1009.0, "max_events",
            id="counted before timed",
        ),
    ],
)  # fmt: skip
def test_which_bound_is_reached(
    bounds: dict[str, Any], so_far: dict[str, Any], now: float, ended: str | None
) -> None:
    """Each bound ends a batch alone, at its limit and not before."""
    assert ended_by(Bounds(**bounds), tally(**so_far), now) == ended


@pytest.mark.parametrize(
    ("idle_seconds", "follows_transactions", "silence"),
    [
        pytest.param(30.0, False, 0.3, id="pending events"),
        pytest.param(30.0, True, 2.0, id="the rest of a transaction"),
        pytest.param(0.1, False, 0.1, id="a shorter idle time"),
        pytest.param(0.1, True, 0.1, id="a shorter idle time for transactions"),
    ],
)
def test_an_announced_batch_is_not_waited_for(
    idle_seconds: float, silence: float, *, follows_transactions: bool
) -> None:
    """An announced batch ends after a short silence, or by a keepalive outside transactions."""
    bounds = Bounds(idle_seconds=idle_seconds, max_events=7)
    announced = bounds.of_announced(2.0, follows_transactions=follows_transactions)
    assert (announced.max_events, announced.silence_seconds(0)) == (7, silence)
    assert announced.keepalive_ends is not follows_transactions


@pytest.mark.parametrize(
    ("answered_in", "silence"),
    [(0.1, 0.3), (0.4, 0.8), (100.0, 30.0)],
    ids=["quick", "slow", "away"],
)
def test_a_slow_service_has_more_time_to_send_what_is_pending(
    answered_in: float, silence: float
) -> None:
    """The silence is at least twice the time of an answer, and never more than `idle_seconds`."""
    announced = Bounds().of_announced(1.0, follows_transactions=False)
    assert announced.for_answers_in(answered_in).silence_seconds(0) == silence
    assert Bounds().for_answers_in(answered_in) == Bounds()


def test_announced_events_are_waited_for() -> None:
    """Before the announced events are there, a short silence ends nothing."""
    bounds = Bounds().of_announced(1.0, expected=3, follows_transactions=False)
    two = tally(already=StagedProgress(events=1), events=1)
    assert ended_by(bounds, two, 1029.0) is None
    assert ended_by(bounds, two, 1030.0) == "idle_seconds"
    assert ended_by(bounds, replace(two, events=2), 1000.5) == "idle_seconds"
    assert is_short_silence(bounds, two, 1000.5)
    assert not is_short_silence(bounds, two, 1030.0)
    assert not is_short_silence(bounds, replace(two, caught_up=True), 1000.5)


@pytest.mark.parametrize("seconds", [0, -1, None, "1", True])
def test_settle_seconds_that_cannot_be_used(seconds: Any) -> None:
    """`settle_seconds` is checked like the other times, and named in the error."""
    with pytest.raises(ConfigurationError, match=f"settle_seconds is {seconds!r}"):
        Bounds().of_announced(seconds, follows_transactions=False)


@settings(deadline=None)  # a busy machine is no defect
@given(
    max_seconds=st.floats(0.1, 1000),
    idle_seconds=st.floats(0.1, 1000),
    learn=st.none() | st.floats(0.1, 1000),
    learned=st.booleans(),
    silent=st.floats(0, 100),
)
def test_listening_ends_when_a_timed_bound_is_reached(
    max_seconds: float, idle_seconds: float, learn: float | None, *, learned: bool, silent: float
) -> None:
    """After `seconds_left` of silence a bound is reached, and not a moment before."""
    bounds = Bounds(max_seconds=max_seconds, idle_seconds=idle_seconds, learn_seconds=learn)
    so_far = tally(silent_since=1000.0 + silent, learned=learned)
    left = seconds_left(bounds, so_far, 1000.0)
    assert ended_by(bounds, so_far, 1000.0 + left + 1e-6) in {"max_seconds", "idle_seconds"}
    if left > 0.01:
        assert ended_by(bounds, so_far, 1000.0 + left - 0.01) is None


def test_what_is_wanted_follows_the_room() -> None:
    """Credit goes down with the events and with the bytes that still fit."""
    bounds = Bounds(max_events=150, max_bytes=10_000)
    so_far = tally()
    assert wanted(bounds, so_far) == 10  # of an assumed kilobyte each
    so_far.count(90)
    so_far.weigh(4_500)
    assert (room_events(bounds, so_far), so_far.mean_event_bytes) == (60, 50.0)
    assert wanted(bounds, so_far) == 60
    so_far.count(50)
    so_far.weigh(5_000)
    assert wanted(bounds, so_far) == 8  # 500 bytes of 67.9 each
    so_far.count(10)
    so_far.weigh(10)
    assert wanted(bounds, so_far) == 0


def test_the_mean_size_counts_earlier_parts() -> None:
    """A continued batch knows the mean event size from its earlier parts."""
    so_far = tally(already=StagedProgress(events=10, bytes=5_000))
    assert so_far.mean_event_bytes == 500.0
    assert wanted(Bounds(max_bytes=7_000), so_far) == 4
    so_far.count(10)
    so_far.weigh(1_000)
    assert so_far.mean_event_bytes == 300.0


def test_a_keepalive_ends_the_learning() -> None:
    """After a keepalive, silence ends a batch without events like any other."""
    bounds, so_far = Bounds(idle_seconds=5, learn_seconds=60), tally()
    assert ended_by(bounds, so_far, 1030.0) is None
    so_far.count(0)
    assert ended_by(bounds, so_far, 1030.0) == "idle_seconds"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_events", 0),
        ("max_events", -1),
        ("max_events", True),
        ("max_events", 2.5),
        ("max_events", "100"),
        ("max_events", 10**12),
        ("max_bytes", 0),
        ("max_bytes", 2**60),
        ("max_seconds", 0),
        ("max_seconds", float("inf")),
        ("max_seconds", float("nan")),
        ("max_seconds", 10**9),
        ("idle_seconds", -3),
        ("idle_seconds", None),
        ("learn_seconds", 0),
        ("until", datetime(2026, 1, 1)),  # noqa: DTZ001 - what must be refused
        ("until", "2026-01-01"),
    ],
)
def test_bounds_that_cannot_be_meant(name: str, value: Any) -> None:
    """A bound that is zero, negative, absurd, or of another type is refused by name and value."""
    with pytest.raises(ConfigurationError, match=name) as raised:
        Bounds(**{name: value})
    assert repr(value) in str(raised.value)


def test_until_is_kept_in_utc() -> None:
    """An `until` in another time zone is the same moment."""
    given = datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    assert Bounds(until=given).until == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_service_that_is_away_has_all_the_time_there_is() -> None:
    """While no stream is open, only `max_seconds` limits the wait for one."""
    bounds = Bounds(max_seconds=60, idle_seconds=5)
    assert [time_left(bounds, tally(), now) for now in (1000.0, 1050.0, 1070.0)] == [60, 10, 0]
    assert seconds_left(bounds, tally(), 1050.0) == 0
