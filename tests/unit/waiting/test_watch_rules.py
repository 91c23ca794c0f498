from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    LeaseHeldError,
    PositionConflictError,
    QuotaExceededError,
    ReplayIdRefusedError,
    StagingError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.staging.sidecar_files import Announced
from airflow_provider_sfevents.waiting import watch_rules
from airflow_provider_sfevents.waiting.watch_rules import Rules, Step, WatchState, next_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULES = Rules()


def announced(seconds_ago: float, times: int = 1) -> Announced:
    return Announced(events=1, at=(NOW - timedelta(seconds=seconds_ago)).isoformat(), times=times)


@pytest.mark.parametrize(
    ("scene", "step"),
    [
        (WatchState(), Step.LISTEN),
        (WatchState(events=1, own=True), Step.ANNOUNCE),
        (WatchState(events=1), Step.WAIT),
        (WatchState(events=1, known_for=9.9), Step.WAIT),
        (WatchState(events=1, known_for=10), Step.ANNOUNCE_IF_IDLE),
        (WatchState(events=1, own=True, held=True), Step.WAIT),
        (WatchState(held=True), Step.WAIT),
        (WatchState(events=1, own=True, announced=announced(1)), Step.WAIT),
        (WatchState(events=0, announced=announced(1)), Step.WAIT),
        (WatchState(events=1, announced=announced(899)), Step.WAIT),
        (WatchState(events=1, announced=announced(900)), Step.ANNOUNCE_IF_IDLE),
        (WatchState(events=1, held=True, announced=announced(9000)), Step.WAIT),
        (WatchState(events=0, announced=announced(900)), Step.ANNOUNCE_IF_IDLE),
    ],
    ids=[
        "nothing known",
        "received just now",
        "staged by another process",
        "which may be about to announce it",
        "which did not announce it",
        "another process came first",
        "held by another process",
        "announced by another watcher",
        "announced, and could not be staged",
        "announced a while ago",
        "announced too long ago",
        "announced too long ago, and held",
        "announced too long ago, and not staged",
    ],
)
def test_what_to_do_about_a_batch(scene: WatchState, step: Step) -> None:
    """A batch is announced once when it has events, and again only if no run lands it."""
    assert next_step(scene, RULES, NOW) is step


@pytest.mark.parametrize(("at_work", "seconds"), [(False, 0), (True, RULES.max_wait)])
def test_events_are_gathered_only_during_a_run(seconds: float, *, at_work: bool) -> None:
    """`max_wait` bounds the wait for more events while a run is queued or running."""
    assert watch_rules.gather_seconds(RULES, at_work=at_work) == seconds


def test_announcements_get_rarer() -> None:
    """The time to the next announcement of a batch doubles each time, up to six hours."""
    patience = [watch_rules.again_after(RULES, times) for times in range(1, 8)]
    assert patience == [timedelta(minutes=minutes) for minutes in (15, 30, 60, 120, 240, 360, 360)]
    assert watch_rules.again_after(RULES, 10_000) == timedelta(hours=6)
    scene = WatchState(events=1, announced=announced(1799, times=2))
    assert next_step(scene, RULES, NOW) is Step.WAIT
    assert next_step(scene, RULES, NOW + timedelta(seconds=1)) is Step.ANNOUNCE_IF_IDLE


@given(st.floats(0, 1e9))
def test_a_batch_that_lands_is_seen_soon_and_for_little(waited: float) -> None:
    """The next look at a batch comes after a tenth of the time so far, in 1 to 30 seconds."""
    pause = watch_rules.pause(waited)
    assert 1 <= pause <= 30
    assert pause <= max(1, waited / 10)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_events", value) for value in (0, -1, 1.0, True, "1", None, 10_001)),
        *(("max_wait", value) for value in (-0.1, math.nan, math.inf, "2", None, True, 3601)),
        *(("again_after", value) for value in (0, 0.9, -1, math.nan, "900", None, 6 * 3600 + 1)),
    ],
)
def test_rules_that_cannot_work(name: str, value: Any) -> None:
    """Rules out of range are refused, naming the argument, its value and its range."""
    with pytest.raises(ConfigurationError) as raised:
        Rules(**{name: value})
    assert f"{name}={value!r}" in str(raised.value)
    assert " to " in str(raised.value)


def test_rules_at_their_limits() -> None:
    """Rules at the limits that the messages name are accepted."""
    assert Rules(max_events=1, max_wait=0, again_after=1).max_wait == 0
    assert Rules(max_events=10_000, max_wait=3600, again_after=6 * 3600).max_wait == 3600


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("the secret is wrong"),
        TopicError("no such topic"),
        ReplayIdRefusedError("expired"),
        PositionConflictError("stale"),
        ConfigurationError("no connection"),
        QuotaExceededError("used up"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_people_must_mend_is_told_at_once(error: Exception) -> None:
    """An error that a person must fix is notified at once, and then ever more rarely."""
    trouble = watch_rules.next_trouble(None, error, NOW)
    assert watch_rules.is_due(trouble, RULES, NOW)
    told = watch_rules.told(trouble, NOW)
    assert not watch_rules.is_due(told, RULES, NOW + timedelta(seconds=899))
    assert watch_rules.is_due(told, RULES, NOW + timedelta(seconds=900))
    twice = watch_rules.told(told, NOW)
    assert not watch_rules.is_due(twice, RULES, NOW + timedelta(seconds=1799))
    assert watch_rules.is_due(twice, RULES, NOW + timedelta(seconds=1800))


@pytest.mark.parametrize(
    "error",
    [
        TransportError("no route"),
        StagingError("full"),
        LeaseHeldError("taken"),
        RuntimeError("?"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_passes_is_told_when_it_does_not_pass(error: Exception) -> None:
    """A transient error is notified only if it lasts, counted from its first try."""
    trouble = watch_rules.next_trouble(None, error, NOW)
    assert not watch_rules.is_due(trouble, RULES, NOW + timedelta(seconds=899))
    later = watch_rules.next_trouble(trouble, error, NOW + timedelta(seconds=900))
    assert watch_rules.is_due(later, RULES, NOW + timedelta(seconds=900))
    assert (later.tries, later.since) == (2, NOW)


def test_trouble_without_words_is_named_by_its_kind() -> None:
    """An error without a message is named by its type."""
    assert watch_rules.next_trouble(None, KeyError(), NOW).message == "KeyError"


def test_a_refused_login_is_not_repeated() -> None:
    """A refused login is tried again only after a change, or when a notification is due."""
    told = watch_rules.told(watch_rules.next_trouble(None, AuthenticationError("no"), NOW), NOW)
    late = NOW + timedelta(seconds=899)
    assert not watch_rules.is_worth_a_try(told, RULES, late, changed=False)
    assert watch_rules.is_worth_a_try(told, RULES, NOW, changed=True)
    assert watch_rules.is_worth_a_try(told, RULES, NOW + timedelta(seconds=900), changed=False)


def test_other_trouble_is_tried_again_now_and_then() -> None:
    """A missing permission, which shows only in a try, is tried again every five minutes."""
    told = watch_rules.told(watch_rules.next_trouble(None, TopicError("no"), NOW), NOW)
    assert not watch_rules.is_worth_a_try(told, RULES, NOW + timedelta(seconds=299), changed=False)
    assert watch_rules.is_worth_a_try(told, RULES, NOW + timedelta(seconds=300), changed=False)
    again = watch_rules.next_trouble(told, TopicError("no"), NOW + timedelta(seconds=300))
    assert not watch_rules.is_worth_a_try(again, RULES, NOW + timedelta(seconds=599), changed=False)


def test_what_passes_is_always_worth_a_try() -> None:
    """A transient error is always tried again, because its pauses are the backoff."""
    trouble = watch_rules.next_trouble(None, TransportError("no route"), NOW)
    assert watch_rules.is_worth_a_try(trouble, RULES, NOW, changed=False)


def test_back_off() -> None:
    """Pauses double up to 300 s, half of it random; if a person must act, each lasts 60 s."""
    passing = watch_rules.next_trouble(None, TransportError("no route"), NOW)
    pauses = [
        watch_rules.trouble_pause(replace(passing, tries=tries), 1) for tries in (1, 2, 3, 99)
    ]
    assert pauses == [2, 4, 8, 300]
    assert watch_rules.trouble_pause(replace(passing, tries=99), 0) == 150
    wrong = watch_rules.next_trouble(None, AuthenticationError("no"), NOW)
    assert watch_rules.trouble_pause(replace(wrong, tries=99), 1) == 60


def test_a_long_wait_that_ends_is_new_trouble() -> None:
    """An error after a long wait is a new trouble; an error seconds after another continues it."""
    assert not watch_rules.was_well(None, NOW)
    assert not watch_rules.was_well(NOW - timedelta(seconds=299), NOW)
    assert watch_rules.was_well(NOW - timedelta(seconds=300), NOW)


def test_an_announcement_is_remembered_when_airflow_has_it() -> None:
    """An announcement is recorded only when Airflow has had time to store it."""
    assert not watch_rules.is_settled(announced(4.9), NOW)
    assert watch_rules.is_settled(announced(5), NOW)
