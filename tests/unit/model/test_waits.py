"""Waits before, beside and after tasks: each event lands once and is delivered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import Check, explore, holds, nothing_more
from tests.unit.model.rules import Rules
from tests.unit.model.scenarios import at_work, each_paid_once, run, wait, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

A, B, C = wait("A"), wait("B"), run("C")
SENSOR = wait("A", then=True)
ONE_HOST = Rules(one_host=True)
ONE_BY_ONE = Rules(one_host=True, one_at_a_time=True)
AT_LATEST = Rules(one_host=True, initial_replay="latest")
STOPPED_AT_LATEST = Rules(max_events=1, initial_replay="latest").including(rules.SWAP)
TASK_STOPPED = world(A, C, bus="", later="ab", start="latest", keepalives=1, pauses=1)
STALE = Rules(one_host=True, max_events=1, keep_batches=0)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(ONE_HOST, world(SENSOR, bus="", later="ab", keepalives=2), 200, id="sensor"),
        pytest.param(
            ONE_HOST,
            world(SENSOR, bus="", later="ab", begun=False, keepalives=2),
            250,
            id="first-run",
        ),
        pytest.param(
            Rules(one_host=True, ends_early=True),
            world(wait("A", enough=2, then=True), bus="", later="ab", keepalives=2),
            300,
            id="ends-half-way",
        ),
        pytest.param(
            AT_LATEST,
            world(SENSOR, bus="a", later="bc", start="latest", keepalives=2),
            350,
            id="latest",
        ),
        pytest.param(
            AT_LATEST,
            world(SENSOR, bus="a", later="bc", begun=False, start="latest", keepalives=2),
            400,
            id="first-run-at-latest",
        ),
        pytest.param(
            Rules(one_host=True, one_at_a_time=True, max_events=1, keep_batches=0),
            world(SENSOR, wait("B", then=True), bus="", later="ab", keepalives=1),
            450,
            id="two-runs",
        ),
        pytest.param(
            ONE_HOST, at_work(ONE_HOST, world(C, A, bus="a", later="b")), 300, id="beside-a-task"
        ),
    ],
)
def test_what_a_wait_has_heard_is_not_paid_for_again(
    surroundings: Rules, first: World, at_least: int
) -> None:
    """A task continues after a wait's events, and a wait requests nothing beside a task."""
    holds(explore(surroundings, first, each_paid_once), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            ONE_HOST,
            world(wait("A", then=True, tries=1), bus="", later="ab", kills=1, keepalives=1),
            8_000,
            id="sensor",
        ),
        pytest.param(
            ONE_HOST,
            world(wait("A", enough=2, tries=1), bus="", later="ab", kills=1, keepalives=2),
            500,
            id="two-files",
        ),
        pytest.param(
            AT_LATEST,
            world(
                wait("A", then=True, tries=1),
                bus="",
                later="ab",
                start="latest",
                kills=1,
                keepalives=1,
            ),
            10_000,
            id="latest",
        ),
        pytest.param(
            AT_LATEST,
            world(
                wait("A", tries=1),
                bus="",
                later="ab",
                begun=False,
                start="latest",
                kills=1,
                keepalives=1,
            ),
            600,
            id="first-run-at-latest",
        ),
        pytest.param(
            ONE_HOST,
            world(A, run("C", tries=1), bus="", later="a", kills=1, keepalives=1),
            40_000,
            id="beside-a-task",
        ),
    ],
)
def test_a_wait_is_killed_anywhere(surroundings: Rules, first: World, at_least: int) -> None:
    """After a kill of a wait or its task each event lands once, and none is delivered twice."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            ONE_HOST,
            world(A, B, C, bus="", later="a", keepalives=1),
            15_000,
            id="two",
            marks=pytest.mark.full,
        ),
        pytest.param(
            ONE_HOST, world(A, B, begun=False, bus="", later="a", keepalives=1), 2_000, id="first"
        ),
        pytest.param(
            AT_LATEST,
            world(A, B, bus="", later="ab", start="latest", keepalives=2),
            6_000,
            id="latest",
        ),
        pytest.param(
            AT_LATEST,
            world(A, C, bus="", later="ab", begun=False, start="latest", keepalives=1),
            15_000,
            id="first-run-at-latest",
            marks=pytest.mark.full,
        ),
        pytest.param(
            STALE, world(A, C, run("D"), bus="ab", keepalives=1), 11_000, id="others-have-moved-on"
        ),
    ],
)
def test_waits_at_once(surroundings: Rules, first: World, at_least: int) -> None:
    """Two waits at once miss no event, and no keepalive passes one."""
    holds(explore(surroundings, first), at_least)


def test_a_wait_that_was_thought_dead_wakes_up() -> None:
    """A wait whose lease was taken over stages no event that counts twice."""
    first = world(A, C, bus="", later="a", keepalives=1, pauses=1)
    holds(explore(Rules(), first), 2_000)


def test_a_task_that_a_wait_took_for_dead_at_latest_wakes_up() -> None:
    """A file without the pinning event, closed by a stopped task, does not begin the batch."""
    holds(explore(STOPPED_AT_LATEST, TASK_STOPPED), 15_000)


def test_pins_guard_what_a_wait_reads_again() -> None:
    """A wait at `latest` that does not read the files again gives way at the pin."""
    first = world(A, B, bus="", later="ab", start="latest", keepalives=1)
    holds(explore(AT_LATEST.without(rules.LOOK_AGAIN), first), 2_000)


def test_a_keepalive_point_behind_a_damaged_file_does_not_count() -> None:
    """A keepalive point after a damaged file does not count, and the file's events come again."""
    first = world(wait("A", enough=2, then=True), bus="", later="ab", keepalives=1, damages=1)
    holds(explore(ONE_HOST, first), 1_000)


@pytest.mark.parametrize(
    ("rule", "surroundings", "first", "at_the_end", "fault"),
    [
        pytest.param(
            rules.KEEPALIVE_POINT_BEHIND_FILES,
            ONE_HOST,
            world(wait("A", tries=1), bus="", later="a", kills=1, keepalives=1),
            nothing_more,
            "the position is past what has not landed",
            id="anchor-behind-files",
        ),
        pytest.param(
            rules.KEEPALIVE_POINT_AFTER,
            ONE_HOST,
            world(wait("A", enough=2), bus="", later="ab", keepalives=1, damages=1),
            nothing_more,
            "the position is past what has not landed",
            id="anchor-after",
        ),
        pytest.param(
            rules.STAND_BACK,
            ONE_HOST,
            at_work(ONE_HOST, world(C, A, bus="a", later="b")),
            each_paid_once,
            "deliveries",
            id="stand-back",
        ),
        pytest.param(
            rules.HOLDS_PIN,
            STOPPED_AT_LATEST,
            TASK_STOPPED,
            nothing_more,
            "the position is past what has not landed",
            id="holds-pin",
        ),
    ],
)
def test_a_broken_rule_of_waiting_is_noticed(
    rule: str, surroundings: Rules, first: World, at_the_end: Check, fault: str
) -> None:
    """Without a rule of waiting, an event is lost or delivered twice."""
    found = explore(surroundings.without(rule), first, at_the_end)
    assert fault in found.fault, str(found)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            ONE_HOST,
            world(A, wait("B", tries=1), C, bus="", later="a", kills=1, keepalives=1),
            150_000,
            id="two-and-a-task",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ONE_HOST,
            world(
                wait("A", enough=2, then=True, tries=1), bus="", later="ab", kills=2, keepalives=1
            ),
            16_000,
            id="killed-twice",
        ),
        pytest.param(
            Rules(),
            world(A, run("C", tries=1), bus="", later="a", kills=1, keepalives=1, pauses=1),
            100_000,
            id="stopped-and-killed",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Rules(initial_replay="latest").including(rules.SWAP),
            world(A, B, C, bus="", later="a", start="latest", keepalives=1, pauses=1),
            50_000,
            id="three-at-latest-and-stopped",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            AT_LATEST,
            world(
                A,
                run("C", tries=1),
                bus="",
                later="a",
                begun=False,
                start="latest",
                keepalives=1,
                kills=1,
            ),
            190_000,
            id="first-run-at-latest-and-killed",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_waits_and_two_faults(surroundings: Rules, first: World, at_least: int) -> None:
    """Waits, kills, stops and keepalives in every combination land each event once."""
    holds(explore(surroundings, first), at_least)
