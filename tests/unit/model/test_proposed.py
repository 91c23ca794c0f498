"""Rules that the package does not follow: without each there is a fault, and with it there is none.

Once the package follows one, it leaves `rules.NOT_YET`, and its world moves to the tests that hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import explore, holds
from tests.unit.model.rules import Rules
from tests.unit.model.scenarios import run, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

A, B, ELSEWHERE = run("A"), run("B"), run("B", area=1)
LATEST = Rules(max_events=1, initial_replay="latest")
APART = world(A, ELSEWHERE, areas=2, bus="a", begun=False)
RESET = world(run("A", tries=1), B, bus="a", resets=1)
PINS_AT_ONCE = world(
    A, ELSEWHERE, areas=2, bus="", later="ab", begun=False, start="latest", keepalives=1
)
PINS_BY_HAND = world(A, ELSEWHERE, areas=2, bus="", later="ab", start="latest", keepalives=1)
STOPPED = world(A, B, bus="a", later="b", start="latest", keepalives=1, pauses=1)
MISSED = "past what has not landed"


@pytest.mark.parametrize(
    ("rule", "surroundings", "first", "at_least"),
    [
        pytest.param(
            rules.ONE_EPOCH,
            Rules(),
            APART,
            50_000,
            id="first-runs-on-two-areas",
            marks=pytest.mark.full,
        ),
        pytest.param(rules.EPOCHS, Rules(), RESET, 2_000, id="a-reset-while-a-batch-is-landing"),
        pytest.param(
            rules.SETTLE,
            LATEST,
            PINS_AT_ONCE,
            100_000,
            id="two-pins-at-once",
            marks=pytest.mark.full,
        ),
        pytest.param(rules.SETTLE, LATEST, PINS_BY_HAND, 40_000, id="two-pins-of-one-epoch"),
        pytest.param(rules.SWAP, LATEST, STOPPED, 2_000, id="stopped-before-its-write"),
    ],
)
def test_with_the_rule_each_event_lands_once(
    rule: str, surroundings: Rules, first: World, at_least: int
) -> None:
    """With a rule that the package does not follow, each event lands once, to the end."""
    holds(explore(surroundings.including(rule), first), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "fault"),
    [
        pytest.param(Rules(), APART, "a reader sees twice", id="one-epoch-on-two-areas"),
        pytest.param(Rules(), RESET, "a reader sees twice", id="epochs"),
        pytest.param(LATEST, PINS_AT_ONCE, MISSED, id="two-pins-at-once"),
        pytest.param(LATEST, PINS_BY_HAND, MISSED, id="two-pins-of-one-epoch"),
        pytest.param(LATEST, STOPPED, "lost", id="stopped-before-its-write"),
    ],
)
def test_without_it_there_is_a_fault(surroundings: Rules, first: World, fault: str) -> None:
    """Without the proposed rule an event is doubled or missed, or a position gets stuck."""
    found = explore(surroundings, first)
    assert fault in found.fault, str(found)


def test_a_store_that_shows_a_first_record_late_misses_events() -> None:
    """If a first record is visible late, another area begins an epoch at a later `latest`."""
    one_by_one = Rules(
        one_host=True, one_at_a_time=True, max_events=1, initial_replay="latest"
    ).including(rules.SETTLE, rules.SWAP)
    found = explore(one_by_one, PINS_AT_ONCE._replace(delays=1))
    assert MISSED in found.fault, str(found)


@pytest.mark.parametrize("rule", [rules.UNCHANGED, rules.READ_BACK])
def test_a_broken_rule_of_writing_is_noticed(rule: str) -> None:
    """A record that is not compared, or not read back, replaces a pinned `latest`."""
    found = explore(LATEST.including(rules.SETTLE).without(rule), PINS_BY_HAND)
    assert MISSED in found.fault, str(found)
