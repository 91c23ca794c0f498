from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_sfevents import steps
from tests.proof.points import (
    BEGINNINGS,
    BEYOND,
    FALLBACKS,
    LISTENING,
    REWRITES,
    Front,
    Victim,
    crash_points,
    is_repeated,
    quick_points,
)
from tests.proof.world import MANAGED, PUBSUB, SPARK, STAND_IN, STORES, STREAMING


@pytest.mark.parametrize("store", STORES)
def test_every_step_of_the_worker_is_killed_in_every_store(store: str) -> None:
    """Every step of the worker has a crash point in every store."""
    killed = {
        point.step_name
        for point in crash_points()
        if (point.store, point.victim, point.front) == (store, Victim.TASK, Front.NONE)
        and not point.beyond
    }
    assert killed == set(steps.WORKER_STEPS)


def test_every_step_around_the_events_beyond_a_batch_is_killed() -> None:
    """Every step for events beyond a batch has a crash point."""
    killed = {point.step for point in crash_points() if point.beyond}
    assert killed == {*BEYOND, *steps.CARRY_OVER_STEPS, f"{steps.PART_CLOSED}:2"}


@pytest.mark.parametrize("store", STORES)
def test_a_task_that_has_pinned_latest_is_killed_in_every_store(store: str) -> None:
    """Each step at which a fetch pins `latest` has a crash point in every store."""
    killed = {
        point.step
        for point in crash_points()
        if point.latest and (point.store, point.front) == (store, Front.NONE)
    }
    assert killed == {steps.POSITION_SET, *BEGINNINGS}


def test_every_step_is_killed_where_salesforce_keeps_the_place() -> None:
    """Every step with a managed subscription has a crash point; fallbacks do not exist there."""
    killed = {
        point.step_name
        for point in crash_points()
        if (point.store, point.victim, point.front) == (MANAGED, Victim.TASK, Front.NONE)
    }
    assert killed == {*steps.WORKER_STEPS, *steps.MANAGED_STEPS} - FALLBACKS


def test_every_step_of_a_wait_is_killed() -> None:
    """Every step of a wait has a crash point, also those that it shares with a fetch."""
    killed = {point.step_name for point in crash_points() if point.front is not Front.NONE}
    assert killed == {*steps.WAIT_STEPS, *BEGINNINGS, *LISTENING, *FALLBACKS}


@pytest.mark.parametrize("store", STORES)
def test_a_sensor_that_begins_a_position_is_killed_in_every_store(store: str) -> None:
    """Each step at which a sensor begins a position has a crash point in every store."""
    killed = {
        point.step for point in crash_points() if (point.store, point.front) == (store, Front.POKE)
    }
    assert killed >= set(BEGINNINGS)


@pytest.mark.parametrize("front", [Front.TRIGGER, Front.WATCH])
def test_a_triggerer_is_killed_at_every_step_of_listening(front: Front) -> None:
    """A triggerer is killed at every step of a deferred sensor's trigger and of a watcher."""
    killed = {point.step for point in crash_points() if point.front is front}
    assert killed >= set(LISTENING)


def test_a_task_is_terminated_at_every_step() -> None:
    """A task gets SIGTERM at each of its steps."""
    ended = {point.step for point in crash_points() if point.victim is Victim.TERMINATED}
    assert ended == set(steps.WORKER_STEPS)


def test_every_step_of_the_real_job_is_killed() -> None:
    """Spark's driver is killed at each of its steps under spark-submit."""
    killed = {
        point.step_name
        for point in crash_points()
        if point.job == SPARK and point.victim is Victim.JOB
    }
    assert killed == set(steps.LANDING_STEPS)


@pytest.mark.parametrize("store", STORES)
def test_every_step_of_the_job_is_killed_in_every_store(store: str) -> None:
    """The stand-in is killed in every store at each step but those of another form of a batch."""
    killed = {
        point.step_name
        for point in crash_points()
        if (point.store, point.job, point.victim) == (store, STAND_IN, Victim.JOB)
    }
    assert killed == set(steps.LANDING_STEPS) - REWRITES


def test_every_crash_point_is_gone_through_over_both_apis() -> None:
    """Each crash point but those of managed subscriptions is one over the Streaming API, too."""
    points = {
        transport: {
            replace(point, transport=PUBSUB)
            for point in crash_points()
            if point.transport == transport and point.store != MANAGED
        }
        for transport in (PUBSUB, STREAMING)
    }
    assert points[PUBSUB] == points[STREAMING]


def test_every_step_and_victim_dies_without_the_repeated_points() -> None:
    """Without the repeated points every step, store, and victim in each kind of wait has one.

    Steps of a landing that replaces an older form are killed in `test_landing_fenced`.
    """
    points = [point for point in crash_points() if not is_repeated(point)]
    assert {(point.victim, point.front) for point in points} == {
        (point.victim, point.front) for point in crash_points()
    }
    assert {point.victim for point in points} == set(Victim)
    assert {point.front for point in points} == set(Front)
    assert {point.store for point in points} == {*STORES, MANAGED}
    assert {point.job for point in points} == {STAND_IN, SPARK}
    assert {point.transport for point in points} == {PUBSUB, STREAMING}
    ends = {point.step_name for point in points}
    assert ends == {point.step_name for point in crash_points()} - REWRITES


def test_each_crash_point_has_a_name_of_its_own() -> None:
    """Names of crash points are unique, and the quick ones are among them."""
    names = [point.id for point in crash_points()]
    assert len(names) == len(set(names))
    assert len(quick_points()) == 6
