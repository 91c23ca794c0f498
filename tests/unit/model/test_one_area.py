from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import Check, explore, holds, nothing_more
from tests.unit.model.rules import Rules
from tests.unit.model.scenarios import each_paid_once, retry, run, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

A, B, C = run("A"), run("B"), run("C")
ONE_HOST = Rules(one_host=True)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_the_end", "at_least"),
    [
        pytest.param(Rules(), world(A, B), each_paid_once, 700, id="two-runs"),
        pytest.param(
            Rules(max_events=1, keep_batches=0),
            world(A, B, C),
            each_paid_once,
            13_000,
            id="three-runs-and-sweeping",
        ),
        pytest.param(
            Rules(max_events=1),
            world(A, B, bus="aa"),
            nothing_more,
            500,
            id="an-event-published-twice",
        ),
        pytest.param(
            Rules(), world(A, B, bus="a", begun=False), each_paid_once, 1_000, id="two-first-runs"
        ),
        pytest.param(
            Rules(carries=True, max_events=1),
            world(A, B, bus="abc"),
            each_paid_once,
            1_500,
            id="events-beyond-the-batch",
        ),
        pytest.param(
            Rules(initial_replay="latest"),
            world(A, B, bus="a", later="bc", begun=False, start="latest", keepalives=1),
            nothing_more,
            18_000,
            id="two-first-runs-at-latest",
            marks=pytest.mark.full,
        ),
        pytest.param(
            Rules(max_events=1),
            world(A, B, bus="ab", delays=1),
            nothing_more,
            900,
            id="a-write-visible-late",
        ),
    ],
)
def test_without_a_fault_each_event_is_paid_for_once_and_each_move_made_once(
    surroundings: Rules, first: World, at_the_end: Check, at_least: int
) -> None:
    """Of runs at once, one lands a batch and the others give way, in any order of their steps."""
    holds(explore(surroundings, first, at_the_end), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(ONE_HOST, world(run("A", tries=1), later="c", kills=1), 4_000, id="retry"),
        pytest.param(
            Rules(one_host=True, ends_early=True),
            world(run("A", tries=1), kills=1),
            2_000,
            id="fetch-ends-early",
        ),
        pytest.param(
            ONE_HOST, world(run("A", tries=1), begun=False, kills=1), 2_000, id="first-run"
        ),
        pytest.param(
            Rules(one_host=True, max_events=1, keep_batches=0),
            world(run("A", tries=1), B, kills=1),
            25_000,
            id="next-run",
            marks=pytest.mark.full,
        ),
        pytest.param(
            Rules(one_host=True, max_events=1),
            world(run("A", tries=1), bus="aa", kills=1),
            500,
            id="published-twice",
        ),
        pytest.param(
            Rules(one_host=True, max_events=1, carries=True),
            world(run("A", tries=1), bus="ab", kills=1),
            1_000,
            id="events-beyond-the-batch",
        ),
        pytest.param(
            Rules(one_host=True, initial_replay="latest"),
            world(
                run("A", tries=1),
                bus="a",
                later="b",
                begun=False,
                start="latest",
                keepalives=1,
                kills=1,
            ),
            1_000,
            id="latest",
        ),
        pytest.param(
            Rules(one_host=True, replay_fallback="latest"),
            world(
                run("A", tries=1),
                bus="abc",
                later="d",
                start="00",
                expiries=2,
                keepalives=1,
                kills=1,
            ),
            2_000,
            id="fallback-to-latest",
        ),
        pytest.param(
            Rules(one_host=True, replay_fallback="earliest"),
            world(run("A", tries=1), bus="abc", start="00", expiries=2, kills=1),
            10_000,
            id="fallback-to-earliest",
        ),
        pytest.param(
            Rules(one_host=True, one_at_a_time=True, exclusive_create=False),
            world(run("A", tries=1), B, bus="a", kills=1),
            1_000,
            id="no-exclusive-create",
        ),
    ],
)
def test_killed_anywhere_and_tried_again(surroundings: Rules, first: World, at_least: int) -> None:
    """After a kill of task or Spark job each event lands once, and no closed file comes again."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("first", "at_least"),
    [
        pytest.param(world(A, retry("B", of=A), pauses=1), 8_500, id="retry"),
        pytest.param(world(A, B, bus="a", later="b", pauses=1), 17_000, id="next-run"),
        pytest.param(world(A, B, bus="a", pauses=2), 3_500, id="both-stopped"),
        pytest.param(world(A, B, bus="a", begun=False, pauses=1), 15_000, id="a-stopped-first-run"),
    ],
)
def test_a_task_that_was_thought_dead_wakes_up(first: World, at_least: int) -> None:
    """A stale writer loses and doubles no event, and the position comes to the end."""
    holds(explore(Rules(), first), at_least)


@pytest.mark.parametrize("rule", [pytest.param(rules.CHECK, marks=pytest.mark.full), rules.ADVANCE])
def test_one_guard_stands_in_for_another(rule: str) -> None:
    """Unchecked leases, or a position that moves from anywhere, do no harm alone."""
    holds(explore(Rules().without(rule), world(A, B, bus="a", pauses=1)), 2_500)


def test_events_beyond_a_batch_beside_other_files_do_no_harm() -> None:
    """Events that are kept although the next batch has begun do no harm."""
    surroundings = Rules(carries=True, max_events=1).without(rules.CARRY_EMPTY)
    holds(explore(surroundings, world(A, B, bus="abc")), 1_500)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            ONE_HOST,
            world(run("A", tries=2), kills=2),
            160_000,
            id="killed-twice",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Rules(one_host=True, max_events=1),
            world(run("A", tries=1), B, begun=False, kills=1),
            80_000,
            id="two-first-runs-and-killed",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Rules(),
            world(A, run("B", tries=1), pauses=1, kills=1),
            1_000_000,
            id="stopped-and-killed",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Rules(max_events=1),
            world(A, B, C, pauses=1),
            250_000,
            id="stopped-for-two-batches",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Rules(one_host=True, max_events=1, carries=True),
            world(run("A", tries=1), B, bus="ab", kills=1),
            80_000,
            id="killed-with-events-beyond",
        ),
        pytest.param(
            Rules(max_events=1, carries=True),
            world(A, B, bus="ab", later="c", pauses=1),
            25_000,
            id="stopped-with-events-beyond",
        ),
    ],
)
def test_two_faults(surroundings: Rules, first: World, at_least: int) -> None:
    """Two faults in every combination land each event once."""
    holds(explore(surroundings, first), at_least)
