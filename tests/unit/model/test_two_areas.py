"""Staging areas that share no files: one of two forms of a batch lands, and counts for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import explore, holds
from tests.unit.model.rules import Rules
from tests.unit.model.scenarios import run, wait, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

A, ELSEWHERE = run("A"), run("B", area=1)
ONE_BY_ONE = Rules(one_host=True, one_at_a_time=True)
LATEST = Rules(one_host=True, one_at_a_time=True, initial_replay="latest")
KILLED = world(A, ELSEWHERE, areas=2, bus="a", later="b", kills=1)
KILLED_TWICE = KILLED._replace(kills=2)
AT_ONCE = KILLED._replace(kills=0)
FIRST_RUNS = world(
    A,
    ELSEWHERE,
    areas=2,
    bus="",
    later="ab",
    begun=False,
    start="latest",
    keepalives=2,
    kills=1,
)


def test_a_retry_elsewhere_fetches_the_batch_again() -> None:
    """After a kill of task or Spark job, a run with another area lands every event once."""
    holds(explore(ONE_BY_ONE, KILLED), 10_000)


def test_a_landing_that_does_not_look_for_others_finds_the_record_of_left_overs() -> None:
    """A record alone shows a landing the files that a failed one left."""
    holds(explore(ONE_BY_ONE.without(rules.LIST_FIRST), KILLED), 8_000)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(LATEST, FIRST_RUNS, 18_000, id="first-runs"),
        pytest.param(
            LATEST,
            world(A, ELSEWHERE, areas=2, bus="", later="ab", start="latest", keepalives=1, kills=1),
            15_000,
            id="set-by-hand",
            marks=pytest.mark.full,
        ),
        pytest.param(
            LATEST,
            world(
                wait("A"),
                ELSEWHERE,
                areas=2,
                bus="",
                later="ab",
                begun=False,
                start="latest",
                keepalives=1,
            ),
            800,
            id="sensor-and-operator",
        ),
    ],
)
def test_what_follows_the_pinned_latest_lands_from_any_area(
    surroundings: Rules, first: World, at_least: int
) -> None:
    """Once `latest` is pinned in the position, no run with another area misses an event."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            ONE_BY_ONE,
            world(A, ELSEWHERE, run("C"), areas=2, bus="", later="a", keepalives=3),
            350,
            id="tasks",
        ),
        pytest.param(
            Rules(one_host=True),
            world(wait("A"), ELSEWHERE, areas=2, bus="", later="a", keepalives=2),
            5_000,
            id="wait-and-task-at-once",
        ),
        pytest.param(
            Rules(one_host=True, one_at_a_time=True, replay_fallback="latest"),
            world(
                A, ELSEWHERE, areas=2, bus="abc", later="d", start="00", keepalives=1, expiries=2
            ),
            1_000,
            id="fallback-to-latest",
        ),
    ],
)
def test_a_keepalive_in_the_position_passes_no_event(
    surroundings: Rules, first: World, at_least: int
) -> None:
    """A batch that begins at a keepalive or after a loss window misses no other event."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("rule", "surroundings", "first", "fault"),
    [
        pytest.param(
            rules.ELSEWHERE, LATEST, FIRST_RUNS, "past what has not landed", id="elsewhere"
        ),
        pytest.param(
            rules.RESUME_EMPTY,
            Rules(one_host=True),
            world(wait("A", enough=2), ELSEWHERE, areas=2, bus="", later="ab", keepalives=1),
            "past what has not landed",
            id="resume-empty",
        ),
    ],
)
def test_a_broken_rule_of_two_areas_is_noticed(
    rule: str, surroundings: Rules, first: World, fault: str
) -> None:
    """Without a rule that two areas need, an event is missed."""
    found = explore(surroundings.without(rule), first)
    assert fault in found.fault, str(found)


def test_a_write_that_is_visible_late_loses_nothing() -> None:
    """A commit that is visible late, even after later ones, is repeated from the receipt."""
    first = world(A, ELSEWHERE, run("C"), areas=2, bus="abc", delays=2)
    holds(explore(Rules(one_host=True, one_at_a_time=True, max_events=1), first), 500)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(ONE_BY_ONE, KILLED_TWICE, 25_000, id="killed-there-too"),
        pytest.param(Rules(), AT_ONCE, 45_000, id="two-at-once"),
        pytest.param(LATEST, FIRST_RUNS._replace(kills=2), 40_000, id="first-runs-killed-twice"),
    ],
)
def test_two_areas_and_more_at_once(surroundings: Rules, first: World, at_least: int) -> None:
    """Two forms of a batch that land at once, or after a kill, land each event once."""
    holds(explore(surroundings, first), at_least)
