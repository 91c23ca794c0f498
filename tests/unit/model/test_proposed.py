"""Rules that the package does not follow: what comes of their absence, and that with them nothing does.

Once the package follows one, it leaves `rules.NOT_YET`, and its story becomes one of `test_broken_rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import explore, holds
from tests.unit.model.rules import NOT_YET, Rules
from tests.unit.model.scenarios import run, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

APART = world(run("A"), run("B", area=1), areas=2, bus="a", begun=False)
RESET = world(run("A", tries=1), run("B"), bus="a", resets=1)


@pytest.mark.parametrize(
    ("rule", "first", "at_least"),
    [
        pytest.param(
            rules.ONE_EPOCH, APART, 50_000, id="first-runs-on-two-areas", marks=pytest.mark.full
        ),
        pytest.param(rules.EPOCHS, RESET, 2_000, id="a-reset-while-a-batch-is-landing"),
    ],
)
def test_with_the_rule_each_event_lands_once(rule: str, first: World, at_least: int) -> None:
    """Where two epochs meet, each event lands once and the position comes to the end."""
    holds(explore(Rules(breaks=NOT_YET - {rule}), first), at_least)


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        pytest.param(APART, "a reader sees twice", id="one-epoch-on-two-areas"),
        pytest.param(RESET, "a reader sees twice", id="epochs"),
    ],
)
def test_without_it_there_is_a_fault(first: World, fault: str) -> None:
    """Each of these rules is needed: without it the exploration tells how an event is doubled, or a position gets stuck."""
    found = explore(Rules(), first)
    assert fault in found.fault, str(found)
