"""Workers whose staging areas do not know of each other: of two forms of a batch one lands, and it counts for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import explore, holds
from tests.unit.model.rules import NOT_YET, Rules
from tests.unit.model.scenarios import run, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

A, ELSEWHERE = run("A"), run("B", area=1)
ONE_BY_ONE = Rules(one_host=True, one_at_a_time=True)
KILLED = world(A, ELSEWHERE, areas=2, bus="a", later="b", kills=1)
KILLED_TWICE = KILLED._replace(kills=2)
AT_ONCE = KILLED._replace(kills=0)


def test_a_retry_that_knows_nothing_of_what_was_staged() -> None:
    """A task is killed, its Spark job maybe not, and the next one fetches the batch anew and lands it: each event lands once."""
    holds(explore(ONE_BY_ONE, KILLED), 10_000)


def test_a_landing_that_does_not_look_who_is_there_finds_word_of_left_overs() -> None:
    """Of the two ways by which a landing learns of files that a failed one left behind, the word of it is enough."""
    without = Rules(one_host=True, one_at_a_time=True, breaks=NOT_YET | {rules.LIST_FIRST})
    holds(explore(without, KILLED), 8_000)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(ONE_BY_ONE, KILLED_TWICE, 25_000, id="killed-there-too"),
        pytest.param(Rules(), AT_ONCE, 45_000, id="two-at-once"),
    ],
)
def test_two_areas_and_more_at_once(surroundings: Rules, first: World, at_least: int) -> None:
    """Two forms of a batch that land at the same time, or one after the other has been killed: each event lands once."""
    holds(explore(surroundings, first), at_least)
