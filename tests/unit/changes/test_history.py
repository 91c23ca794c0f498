"""Intervals of the history table."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_sfevents.spark.changes.history import Versions, versions
from tests.unit.changes.building import order, second, state


def spans(found: Versions) -> list[tuple[str, float, float | None]]:
    start = second(0)
    return [
        (
            one.values["Phone"],
            (one.valid_from - start).total_seconds(),
            None if one.valid_to is None else (one.valid_to - start).total_seconds(),
        )
        for one in found.opens
    ]


def test_intervals_join() -> None:
    """Each interval ends where the next begins, also the one in the table; the last is open."""
    found = versions([state(2, Phone="2"), state(5, Phone="5")], second(1))
    assert spans(found) == [("2", 2, 5), ("5", 5, None)]
    assert found.closes == second(2)
    assert [one.order for one in found.opens] == [order(2), order(5)]


def test_a_deletion_opens_nothing() -> None:
    """A record that comes back has a hole in its history."""
    found = versions([state(2, deleted=True, Phone="2"), state(5, Phone="5")], second(1))
    assert spans(found) == [("5", 5, None)]
    assert found.closes == second(2)


def test_what_lasted_no_time_is_left_out() -> None:
    """Of the steps of a transaction only the last makes an interval."""
    passed = [replace(state(at, Phone=str(at)), committed_at=second(2)) for at in (2, 3, 4)]
    assert spans(versions(passed, None)) == [("4", 2, None)]


def test_time_does_not_go_back() -> None:
    """The order of events counts more than their times."""
    back = replace(state(6, Phone="6"), committed_at=second(4))
    assert spans(versions([state(5, Phone="5"), back], second(1))) == [("6", 5, None)]


def test_a_state_that_was_read_says_so() -> None:
    """The beginning of a state from a snapshot is the time of the snapshot."""
    read = replace(state(3, read=10, Phone="x"), committed_at=second(10))
    (one,) = versions([read], None).opens
    assert one.was_read
    assert not versions([state(3, read=1, Phone="x")], None).opens[0].was_read


def test_nothing_passed_is_nothing_written() -> None:
    """Without a new state the open interval stays open."""
    assert versions([], second(1)) == Versions(closes=None, opens=())
