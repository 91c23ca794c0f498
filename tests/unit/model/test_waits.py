"""Waits before, beside and after the attempts that fetch: what they stage lands, is paid for once, and passes nothing."""

from __future__ import annotations

from dataclasses import replace
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
    """Its task goes on after it, whether it had enough or its time was over half-way; who waits while a task is at work asks for nothing."""
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
    """It, or the task beside or after it, is killed at any step: each event lands once, and closed files are not paid for again."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(ONE_HOST, world(A, B, C, bus="", later="a", keepalives=1), 15_000, id="two"),
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
        ),
        pytest.param(
            STALE, world(A, C, run("D"), bus="ab", keepalives=1), 11_000, id="others-have-moved-on"
        ),
    ],
)
def test_waits_at_once(surroundings: Rules, first: World, at_least: int) -> None:
    """Two waits, or a wait whose position others have left behind: nothing falls between two `latest`s, and no anchor passes an event."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            Rules(), world(A, C, bus="", later="a", keepalives=1, pauses=1), 2_000, id="task"
        ),
        pytest.param(
            Rules(initial_replay="latest"),
            world(A, B, bus="", later="ab", start="latest", keepalives=1, pauses=1),
            8_000,
            id="latest",
        ),
        pytest.param(
            Rules(initial_replay="latest"),
            world(run("A"), C, bus="", later="ab", start="latest", keepalives=1, pauses=1),
            30_000,
            id="two-tasks-at-latest",
        ),
    ],
)
def test_a_wait_that_was_thought_dead_wakes_up(
    surroundings: Rules, first: World, at_least: int
) -> None:
    """Of two who asked at `latest`, as one was taken for dead, the later moment counts for nothing that the earlier one has noted down."""
    holds(explore(surroundings, first), at_least)


def test_an_anchor_behind_a_damaged_file_does_not_count() -> None:
    """A staged file is found damaged, and the anchor that followed it is left out with it: what was in the file is fetched again."""
    first = world(wait("A", enough=2, then=True), bus="", later="ab", keepalives=1, damages=1)
    holds(explore(ONE_HOST, first), 1_000)


@pytest.mark.parametrize(
    ("rule", "surroundings", "first", "at_the_end", "fault"),
    [
        pytest.param(
            rules.CLAIM_LATEST,
            AT_LATEST,
            world(A, B, bus="", later="ab", start="latest", keepalives=1),
            nothing_more,
            "the position is past what has not landed",
            id="claim-latest",
        ),
        pytest.param(
            rules.LOOK_AGAIN,
            AT_LATEST,
            world(A, B, bus="", later="ab", start="latest", keepalives=1),
            nothing_more,
            "the position is past what has not landed",
            id="look-again",
        ),
        pytest.param(
            rules.CHECK_LATEST,
            Rules(initial_replay="latest"),
            world(run("A"), C, bus="", later="ab", start="latest", keepalives=1, pauses=1),
            nothing_more,
            "the position is past what has not landed",
            id="check-latest",
        ),
        pytest.param(
            rules.ANCHOR_BEHIND_FILES,
            ONE_HOST,
            world(wait("A", tries=1), bus="", later="a", kills=1, keepalives=1),
            nothing_more,
            "lost",
            id="anchor-behind-files",
        ),
        pytest.param(
            rules.ANCHOR_AFTER,
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
    ],
)
def test_a_broken_rule_of_waiting_is_noticed(
    rule: str, surroundings: Rules, first: World, at_the_end: Check, fault: str
) -> None:
    """Each rule of waiting is needed: left out on purpose, an event is lost or paid for twice, and the story is told."""
    broken = replace(surroundings, breaks=surroundings.breaks | {rule})
    found = explore(broken, first, at_the_end)
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
        ),
        pytest.param(
            Rules(initial_replay="latest"),
            world(A, B, C, bus="", later="a", start="latest", keepalives=1, pauses=1),
            200_000,
            id="three-at-latest-and-stopped",
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
        ),
    ],
)
def test_waits_and_two_faults(surroundings: Rules, first: World, at_least: int) -> None:
    """More waits, kills, stops and keepalives in every combination: each event lands once."""
    holds(explore(surroundings, first), at_least)
