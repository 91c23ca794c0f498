from __future__ import annotations

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
    quick_points,
)
from tests.proof.world import MANAGED, SPARK, STAND_IN, STORES


@pytest.mark.parametrize("store", STORES)
def test_every_step_of_the_worker_is_killed_in_every_store(store: str) -> None:
    """A step that is added without a kill fails here."""
    killed = {
        point.step_name
        for point in crash_points()
        if (point.store, point.victim, point.front) == (store, Victim.TASK, Front.NOBODY)
        and not point.beyond
    }
    assert killed == set(steps.WORKER_STEPS)


def test_every_step_around_the_events_beyond_a_batch_is_killed() -> None:
    """Before and after the manifest, with the next batch claimed, and with its first part closed."""
    killed = {point.step for point in crash_points() if point.beyond}
    assert killed == {*BEYOND, *steps.CARRY_OVER_STEPS, f"{steps.PART_CLOSED}:2"}


@pytest.mark.parametrize("store", STORES)
def test_a_task_that_has_pinned_latest_is_killed_in_every_store(store: str) -> None:
    """At each step of the first record's write."""
    killed = {
        point.step
        for point in crash_points()
        if point.latest and (point.store, point.front) == (store, Front.NOBODY)
    }
    assert killed == {steps.POSITION_SET, *BEGINNINGS}


def test_every_step_is_killed_where_salesforce_keeps_the_place() -> None:
    """Those of its own too; but for the fallbacks, which there are none of then."""
    killed = {
        point.step_name
        for point in crash_points()
        if (point.store, point.victim, point.front) == (MANAGED, Victim.TASK, Front.NOBODY)
    }
    assert killed == {*steps.WORKER_STEPS, *steps.MANAGED_STEPS} - FALLBACKS


def test_every_step_of_a_wait_is_killed() -> None:
    """Those that only waits reach, and those that they have in common with the task that fetches."""
    killed = {point.step_name for point in crash_points() if point.front is not Front.NOBODY}
    assert killed == {*steps.WAIT_STEPS, *BEGINNINGS, *LISTENING, *FALLBACKS}


@pytest.mark.parametrize("store", STORES)
def test_a_sensor_that_begins_a_position_is_killed_in_every_store(store: str) -> None:
    """Where the position is kept makes a difference to whoever begins it for another task."""
    killed = {
        point.step for point in crash_points() if (point.store, point.front) == (store, Front.POKE)
    }
    assert killed >= set(BEGINNINGS)


@pytest.mark.parametrize("front", [Front.TRIGGER, Front.WATCH])
def test_a_triggerer_is_killed_at_every_step_of_listening(front: Front) -> None:
    """Of a deferred sensor's trigger and of a watcher."""
    killed = {point.step for point in crash_points() if point.front is front}
    assert killed >= set(LISTENING)


def test_a_task_is_terminated_at_every_step() -> None:
    """SIGTERM, which a task answers by ending, reaches it at each step of its way."""
    ended = {point.step for point in crash_points() if point.victim is Victim.TERMINATED}
    assert ended == set(steps.WORKER_STEPS)


def test_every_step_of_the_real_job_is_killed() -> None:
    """The same for Spark's driver, under spark-submit."""
    killed = {
        point.step_name
        for point in crash_points()
        if point.job == SPARK and point.victim is Victim.JOB
    }
    assert killed == set(steps.LANDING_STEPS)


@pytest.mark.parametrize("store", STORES)
def test_every_step_of_the_job_is_killed_in_every_store(store: str) -> None:
    """With the stand-in, which takes every step but those of a batch that is landed in another form."""
    killed = {
        point.step_name
        for point in crash_points()
        if (point.store, point.job, point.victim) == (store, STAND_IN, Victim.JOB)
    }
    assert killed == set(steps.LANDING_STEPS) - REWRITES


def test_every_victim_dies() -> None:
    """Nobody who may be killed is left out, nor anybody who waits."""
    assert {point.victim for point in crash_points()} == set(Victim)
    assert {point.front for point in crash_points()} == set(Front)


def test_each_crash_point_has_a_name_of_its_own() -> None:
    """Names tell crash points apart in figures and test ids; the quick ones are all there."""
    names = [point.id for point in crash_points()]
    assert len(names) == len(set(names))
    assert len(quick_points()) == 6
