"""Resync entries: events that they hold back, snapshots that answer them, and their union."""

from __future__ import annotations

from itertools import permutations

import pytest

from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry, cause, together
from tests.unit.changes.building import entry, order, second


def test_an_entry_holds_back_what_comes_after_its_first_cause() -> None:
    """An entry holds back events after its first cause, but not the cause itself."""
    held = [entry(3).with_cause(entry(6)).holds_back(order(at)) for at in (2, 3, 4, 7)]
    assert held == [False, False, True, True]


@pytest.mark.parametrize(("read_at", "answers"), [(3.9, False), (4, True), (4.1, True)])
def test_a_read_answers_an_entry_from_one_second_after_its_last_cause(
    read_at: float, answers: bool
) -> None:
    """A cause may have been committed at any moment of its second."""
    assert entry(3).is_answered_by(second(read_at)) == answers


def test_two_entries_are_one_from_the_first_place_to_the_last_place_and_time() -> None:
    """Combined entries have the first place, and the last place and time of both."""
    early = ResyncEntry(
        since=order(1), last=order(9), cause_at=second(20), reasons=("gap",), detail="a"
    )
    late = cause(order(4), second(10), "diff", "b")
    whole = ResyncEntry(
        since=order(1), last=order(9), cause_at=second(20), reasons=("gap", "diff"), detail="a"
    )
    for one, other in permutations((early, late)):
        assert together(one, other) == whole


def test_an_entry_beside_none_stays_as_it_is() -> None:
    """An entry combined with none stays the same."""
    assert together(entry(1), None) == together(None, entry(1)) == entry(1)
    assert together(None, None) is None
