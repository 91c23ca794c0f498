"""That the proof can fail: each rule is left out, and the exploration tells what comes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import Check, explore, nothing_more
from tests.unit.model.rules import NOT_YET, Rules
from tests.unit.model.scenarios import each_paid_once, run, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

ONE_HOST = Rules(one_host=True, max_events=1)
ONE_BY_ONE = Rules(one_host=True, one_at_a_time=True)
A, B, C = run("A"), run("B"), run("C")
KILLED = world(run("A", tries=1), kills=1)
ELSEWHERE = world(A, run("B", area=1), areas=2, bus="a", later="b", kills=1)


@pytest.mark.parametrize(
    ("rule", "surroundings", "first", "at_the_end", "fault", "last_step"),
    [
        pytest.param(
            rules.CLAIM,
            ONE_HOST,
            world(A, B, bus="a"),
            each_paid_once,
            "made again",
            "committed",
            id="claim",
        ),
        pytest.param(
            rules.RECEIPT,
            ONE_HOST,
            KILLED,
            nothing_more,
            "the position is past what has not landed",
            "writes the position",
            id="receipt",
        ),
        pytest.param(
            rules.REPLACE,
            ONE_HOST,
            KILLED,
            nothing_more,
            "a reader sees twice",
            "moves",
            id="replace",
        ),
        pytest.param(
            rules.IDENTITY,
            ONE_HOST,
            world(A, B, bus="aa"),
            nothing_more,
            "a reader sees twice",
            "moves",
            id="identity",
        ),
        pytest.param(
            rules.KEEP_PARTS,
            ONE_HOST,
            KILLED,
            nothing_more,
            "is paid for twice",
            "is delivered",
            id="parts",
        ),
        pytest.param(
            rules.BEGIN_ONCE,
            Rules(breaks=NOT_YET | {rules.ONE_BEGINNING}),  # which would stand in for it
            world(A, B, bus="a", begun=False),
            nothing_more,
            "the position does not come to the end",
            "refused",
            id="begin-once",
        ),
        pytest.param(
            rules.FENCE,
            ONE_BY_ONE,
            ELSEWHERE,
            nothing_more,
            "the position is past what has not landed",
            "",
            id="fence",
        ),
        pytest.param(
            rules.LEFT_OVERS,
            ONE_BY_ONE,
            ELSEWHERE,
            nothing_more,
            "a reader sees twice",
            "",
            id="left-overs",
        ),
        pytest.param(
            rules.ONE_BEGINNING,
            Rules(),
            world(A, B, bus="a", begun=False, pauses=1),
            nothing_more,
            "the position does not come to the end",
            "",
            id="one-beginning",
        ),
        pytest.param(
            rules.WORD,
            ONE_BY_ONE,
            ELSEWHERE,
            nothing_more,
            "a reader sees twice",
            "",
            id="word-of-left-overs",
        ),
        pytest.param(
            rules.FIRST,
            ONE_BY_ONE,
            ELSEWHERE._replace(kills=2),
            nothing_more,
            "the position is past what has not landed",
            "",
            id="first-form",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_broken_rule_is_noticed(
    rule: str, surroundings: Rules, first: World, at_the_end: Check, fault: str, last_step: str
) -> None:
    """A rule that is broken on purpose gives the story of the fault, down to the step that makes it."""
    found = explore(replace(surroundings, breaks=surroundings.breaks | {rule}), first, at_the_end)
    assert fault in found.fault, str(found)
    assert last_step in found.story[-1], str(found)


def test_a_position_that_is_not_read_again_pays_for_a_swept_batch() -> None:
    """Whoever waited for a claim while others went on would fetch a batch that has been committed and swept."""
    surroundings = Rules(max_events=1, keep_batches=0, breaks=NOT_YET | {rules.REREAD})
    found = explore(surroundings, world(A, B, C), each_paid_once)
    assert found.fault == "deliveries: (2, 1)", str(found)


def test_without_exclusive_create_two_at_once_are_not_kept_apart() -> None:
    """A store that lets two create one file needs `max_active_runs=1`: otherwise both believe that the batch is theirs."""
    found = explore(Rules(exclusive_create=False), world(A, B, bus="a"), each_paid_once)
    assert found.fault, str(found)
    assert sum("creates claim 1" in step for step in found.story) == 2, str(found)
