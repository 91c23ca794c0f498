"""Intervals of a record's history that end, begin, or were left by a killed run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.spark.current_state.record_history import changed_intervals
from airflow_provider_sfevents.spark.current_state.state_rows import order_parts
from tests.unit.changes.building import A, order, second, state


def spans(opens: list[dict[str, Any]]) -> list[tuple[str, float, float | None]]:
    start = second(0)
    return [
        (
            one["Phone"],
            (one["valid_from"] - start).total_seconds(),
            None if one["valid_to"] is None else (one["valid_to"] - start).total_seconds(),
        )
        for one in opens
    ]


def test_intervals_join() -> None:
    """Each interval ends where the next begins, also the one in the table; the last is open."""
    passed = [state(2, Phone="2"), state(5, Phone="5")]
    closes, opens = changed_intervals(A, state(1), [interval(1)], passed)
    assert spans(opens) == [("2", 2, 5), ("5", 5, None)]
    assert [one["valid_to"] for one in closes] == [second(2)]
    assert [one["applied_ordinal"] for one in opens] == [2, 5]


def test_a_deletion_opens_nothing() -> None:
    """A record that comes back has a hole in its history."""
    passed = [state(2, deleted=True, Phone="2"), state(5, Phone="5")]
    closes, opens = changed_intervals(A, state(1), [interval(1)], passed)
    assert spans(opens) == [("5", 5, None)]
    assert [one["valid_to"] for one in closes] == [second(2)]


def test_what_lasted_no_time_is_left_out() -> None:
    """Of the steps of a transaction only the last makes an interval."""
    passed = [replace(state(at, Phone=str(at)), committed_at=second(2)) for at in (2, 3, 4)]
    closes, opens = changed_intervals(A, None, [], passed)
    assert (closes, spans(opens)) == ([], [("4", 2, None)])


def test_time_does_not_go_back() -> None:
    """The order of events counts more than their times."""
    back = replace(state(6, Phone="6"), committed_at=second(4))
    _, opens = changed_intervals(A, state(1), [interval(1)], [state(5, Phone="5"), back])
    assert spans(opens) == [("6", 5, None)]


def test_a_state_that_was_read_says_so() -> None:
    """The beginning of a state from a snapshot is the time of the snapshot."""
    read = replace(state(3, read=10, Phone="x"), committed_at=second(10))
    for passed, was_read in ((read, True), (state(3, read=1, Phone="x"), False)):
        _, (opens,) = changed_intervals(A, None, [], [passed])
        assert opens["was_read"] == was_read


def test_an_interval_ends_where_the_next_begins() -> None:
    """The newest existing interval, by order, ends where the first new one begins."""
    past = [interval(1, 2), interval(2)]
    closes, opens = changed_intervals(A, state(2), past, [state(5, Industry="Mining")])
    assert [(one["applied_ordinal"], one["valid_to"]) for one in closes] == [(2, second(5))]
    assert [(one["valid_from"], one["valid_to"], one["Industry"]) for one in opens] == [
        (second(5), None, "Mining")
    ]


def test_a_job_that_is_run_again_finds_the_same_interval_to_end() -> None:
    """A job that runs again ends the same interval, beside its own from before."""
    past = [interval(2, 5), interval(5)]
    closes, _ = changed_intervals(A, state(2), past, [state(5, Industry="Mining")])
    assert [(one["applied_ordinal"], one["valid_to"]) for one in closes] == [(2, second(5))]


def test_a_read_ends_the_interval_of_the_event_whose_order_it_has() -> None:
    """A read has the order of the record's last event."""
    closes, opens = changed_intervals(A, state(5), [interval(5)], [read_state(8)])
    assert [(one["valid_from"], one["valid_to"]) for one in closes] == [(second(5), second(8))]
    assert [(one["valid_from"], one["was_read"]) for one in opens] == [(second(8), True)]


@pytest.mark.parametrize(
    ("known", "past", "ended"),
    [
        (None, [], []),
        (None, [(5, 7, None)], [(7, 7)]),
        (None, [(1, 1, 2), (5, 7, 7.5), (6, 7.5, None)], [(7, 7), (7.5, 7.5)]),
        (state(5), [(5, 5, 7), (5, 7, None)], [(5, 8), (7, 7)]),
        (replace(state(5), deleted=True, values={}), [(1, 1, 5), (5, 7, None)], [(7, 7)]),
    ],
    ids=["nothing", "a new record", "an earlier life", "a record with a row", "a deleted record"],
)
def test_what_a_killed_read_began_goes_when_another_read_takes_its_place(
    known: Any, past: list[Any], ended: list[Any]
) -> None:
    """A snapshot that is run again reads at another time, and leaves one open interval."""
    was = [interval(of, to, begins=begins) for of, begins, to in past]
    closes, opens = changed_intervals(A, known, was, [read_state(8)])
    keys = sorted((one["valid_from"], one["valid_to"]) for one in closes)
    assert keys == [(second(begins), second(to)) for begins, to in ended]
    assert [(one["valid_from"], one["valid_to"]) for one in opens] == [(second(8), None)]


def interval(of: int, to: float | None = None, begins: float | None = None) -> dict[str, Any]:
    return {
        **order_parts(order(of)),
        "valid_from": second(of if begins is None else begins),
        "valid_to": None if to is None else second(to),
    }


def read_state(at: float) -> Any:
    return replace(state(5, read=at, Industry="Mining"), committed_at=second(at))
