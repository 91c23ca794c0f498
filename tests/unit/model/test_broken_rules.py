"""Each rule is left out once, and the exploration finds the fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import Check, explore, holds, nothing_more, reset
from tests.unit.model.rules import Rules
from tests.unit.model.scenarios import driven, each_paid_once, run, world

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
            rules.LEASE,
            ONE_HOST,
            world(A, B, bus="a"),
            each_paid_once,
            "made again",
            "committed",
            id="lease",
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
            Rules().without(rules.ONE_BEGINNING),  # which would replace it
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
    """The exploration finds the fault of a left-out rule, and its story ends with that step."""
    found = explore(surroundings.without(rule), first, at_the_end)
    assert fault in found.fault, str(found)
    assert last_step in found.story[-1], str(found)


def test_a_batch_is_not_landed_after_a_reset() -> None:
    """A task that does not read the position before landing lands beside a new epoch."""
    fetched = driven(Rules(), world(A, B, bus="a"), "A", "check launch")
    first = reset(fetched._replace(resets=1))
    holds(explore(Rules(), first), 80)
    found = explore(Rules().without(rules.READ_AGAIN), first)
    assert "a reader sees twice" in found.fault, str(found)


def test_events_beyond_a_batch_follow_the_manifest_that_counts() -> None:
    """Events beyond a batch that are kept after a manifest of another end leave a gap."""
    surroundings = Rules(carries=True, max_events=2, ends_early=True).without(rules.CARRY_END)
    found = explore(surroundings, world(A, B, bus="abc", pauses=1))
    assert found.fault, str(found)


def test_a_position_that_is_not_read_again_pays_for_a_swept_batch() -> None:
    """A task that waited for a lease while others committed would fetch a swept batch again."""
    surroundings = Rules(max_events=1, keep_batches=0).without(rules.REREAD)
    found = explore(surroundings, world(A, B, C), each_paid_once)
    assert found.fault == "deliveries: (2, 1)", str(found)


def test_without_exclusive_create_two_at_once_are_not_kept_apart() -> None:
    """On a store without exclusive create, two tasks at once both hold the lease."""
    found = explore(Rules(exclusive_create=False), world(A, B, bus="a"), each_paid_once)
    assert found.fault, str(found)
    assert sum("creates lease 1" in step for step in found.story) == 2, str(found)
