"""A managed subscription: Salesforce's replay id may be beyond what has landed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.model import rules
from tests.unit.model.explore import explore, holds
from tests.unit.model.rules import Rules
from tests.unit.model.scenarios import driven, killed_at, run, world

if TYPE_CHECKING:
    from tests.unit.model.world import World

A, ELSEWHERE = run("A"), run("B", area=1)
ONE_AREA = Rules(managed=True, one_host=True)
ONE_BY_ONE = Rules(managed=True, one_host=True, one_at_a_time=True)
ONE_EVENT = Rules(managed=True, one_host=True, one_at_a_time=True, max_events=1)
TWO_HOSTS = Rules(managed=True, max_events=1)
LATEST = Rules(managed=True, one_host=True, one_at_a_time=True, initial_replay="latest")
PER_POD = world(A, ELSEWHERE, areas=2, bus="a", later="b", kills=1)
AT_ONCE = world(A, ELSEWHERE, areas=2, bus="ab")
AT_ONCE_KILLED = AT_ONCE._replace(kills=1)


def _other_form_landed() -> World:
    """Area 0 has staged two events and was killed; area 1 has landed one of them as the batch."""
    first = world(A, ELSEWHERE, run("C"), run("D", area=1), areas=2, bus="ab", later="c", kills=1)
    return driven(ONE_EVENT, killed_at(ONE_BY_ONE, first, "A", "keep"), "B", "done")


def _commits_refused() -> World:
    """Area 0 has committed what it did not land; area 1 continues, and its commits fail."""
    tasks = (A, ELSEWHERE, run("C", tries=1), run("D", area=1), run("E", area=1))
    first = world(*tasks, areas=2, bus="abcde")
    first = driven(ONE_EVENT, driven(ONE_EVENT, first, "A", "done"), "B", "done")
    first = killed_at(ONE_BY_ONE, first, "C", "check launch")
    return killed_at(ONE_BY_ONE, first, "C", "check launch")._replace(refusals=2)


OTHER_FORM, COMMITS_REFUSED = _other_form_landed(), _commits_refused()


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            ONE_AREA, world(run("A", tries=1), bus="ab", later="c", kills=1), 5_000, id="one-area"
        ),
        pytest.param(ONE_EVENT, PER_POD, 3_500, id="per-pod"),
        pytest.param(
            LATEST,
            world(
                run("A", tries=1),
                bus="",
                later="ab",
                begun=False,
                start="latest",
                keepalives=1,
                kills=1,
            ),
            14_000,
            id="latest",
        ),
        pytest.param(
            LATEST,
            world(
                A,
                ELSEWHERE,
                areas=2,
                bus="",
                later="ab",
                begun=False,
                start="latest",
                keepalives=1,
                kills=1,
            ),
            18_000,
            id="latest-per-pod",
        ),
    ],
)
def test_a_killed_task_loses_nothing(surroundings: Rules, first: World, at_least: int) -> None:
    """A task that is killed at any step, also between staged and landed, lands each event once."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(ONE_BY_ONE, OTHER_FORM, 14_000, id="another-form-has-landed"),
        pytest.param(ONE_EVENT, COMMITS_REFUSED, 200, id="commits-refused"),
        pytest.param(TWO_HOSTS, AT_ONCE, 14_000, id="at-once"),
        pytest.param(TWO_HOSTS, AT_ONCE_KILLED, 40_000, id="at-once-and-killed"),
    ],
)
def test_two_areas_by_turns_or_at_once_lose_nothing(
    surroundings: Rules, first: World, at_least: int
) -> None:
    """An area does not use Salesforce's replay id unless it has staged the events before it."""
    holds(explore(surroundings, first), at_least)


@pytest.mark.parametrize("rule", [rules.NO_PLACE, rules.TAKE_AREA])
def test_a_broken_rule_of_managed_is_noticed(rule: str) -> None:
    """Without a rule of managed subscriptions, the events of a lost pod's batch are missed."""
    first = world(A, ELSEWHERE, run("C"), areas=2, bus="abc", kills=1)
    found = explore(ONE_EVENT.without(rule), first)
    assert "past what has not landed" in found.fault, str(found)


@pytest.mark.parametrize(
    ("broken", "surroundings", "first"),
    [
        pytest.param({rules.OWED}, ONE_BY_ONE, OTHER_FORM, id="owed"),
        pytest.param({rules.LAST_PLACE}, ONE_EVENT, COMMITS_REFUSED, id="last-place"),
        pytest.param({rules.FIRST_FILE}, TWO_HOSTS, AT_ONCE_KILLED, id="first-file"),
        pytest.param({rules.FIRST_FILE, rules.SAME_AREA}, TWO_HOSTS, AT_ONCE, id="same-area"),
    ],
)
def test_a_broken_rule_of_two_areas_is_noticed(
    broken: set[str], surroundings: Rules, first: World
) -> None:
    """Without a rule, Salesforce's replay id is beyond what has landed, and an event is missed."""
    found = explore(surroundings.without(*broken), first)
    assert "past what has not landed" in found.fault, str(found)


def test_the_check_before_the_first_file_stands_in_for_the_later_ones() -> None:
    """A task that checks the position before it stages needs no check before it commits."""
    holds(explore(TWO_HOSTS.without(rules.SAME_AREA), AT_ONCE), 14_000)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("surroundings", "first", "at_least"),
    [
        pytest.param(
            Rules(managed=True, one_host=True, one_at_a_time=True, ends_early=True),
            world(A, ELSEWHERE, run("C"), run("D", area=1), areas=2, bus="ab", later="c", kills=1),
            140_000,
            id="four-runs-that-end-early",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ONE_EVENT,
            world(
                *(A, ELSEWHERE, run("C"), run("D", area=1)),
                areas=2,
                bus="abcd",
                kills=1,
                refusals=1,
            ),
            45_000,
            id="four-runs-and-a-refused-commit",
        ),
        pytest.param(
            TWO_HOSTS,
            world(A, ELSEWHERE, areas=2, bus="a", later="b", refusals=1),
            60_000,
            id="at-once-and-refused",
        ),
    ],
)
def test_managed_and_more_runs(surroundings: Rules, first: World, at_least: int) -> None:
    """More runs of two areas in turns land each event once."""
    holds(explore(surroundings, first), at_least)
