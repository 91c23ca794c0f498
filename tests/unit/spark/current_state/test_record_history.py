"""Intervals of a record's history that end, begin, or were left by a killed run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.spark.current_state.record_history import changed_intervals
from airflow_provider_sfevents.spark.current_state.state_rows import order_parts
from tests.unit.changes.building import A, order, second, state


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
