"""Repeats, and transactions that stay whole."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.spark.changes.transactions import (
    Ready,
    about_entities,
    cut,
    sort,
)
from tests.unit.changes.building import A, B, change, order


def told(number: int, key: str, *ids: str, kind: str = "UPDATE", **given: Any) -> Any:
    return change(number, kind, *ids, transaction_key=key, sequence_number=number, **given)


def orders(ready: Ready[Any]) -> tuple[list[int], list[int], list[int]]:
    parts = (ready.released, ready.held, ready.repeats)
    released, held, repeats = ([one.order.ordinal for one in part] for part in parts)
    return released, held, repeats


@pytest.mark.parametrize(
    ("keys", "ended_by", "held_from"),
    [
        ("aab", "max_events", 2),
        ("aab", "idle_seconds", None),
        ("aaa", "max_bytes", 0),
        ("aba", "until", 2),
        ("", "max_events", None),
        ("aab", "error", 2),
        ("ab b", "max_seconds", 1),
        ("ab ", "max_events", 1),
        (" ", "max_events", None),
        ("a b", "max_events", 2),
    ],
)
def test_the_last_transaction_waits_unless_silence_ended_the_batch(
    keys: str, ended_by: str, held_from: int | None
) -> None:
    """The last transaction is held back, unless silence ended the batch."""
    given = [(order(at), key.strip()) for at, key in enumerate(keys)]
    assert cut(given, ended_by) == (None if held_from is None else order(held_from))


def test_what_was_held_comes_first_and_goes_with_its_rest() -> None:
    """Held events are released with the rest of their transaction, or by silence."""
    held = [told(1, "a"), told(2, "a")]
    assert orders(sort(held, [told(3, "a"), told(4, "b")], {}, "max_events")) == (
        [1, 2, 3],
        [4],
        [],
    )
    assert orders(sort(held, [told(3, "a")], {}, "max_events")) == ([], [1, 2, 3], [])
    assert orders(sort(held, [], {}, "idle_seconds")) == ([1, 2], [], [])
    assert orders(sort(held, [], {}, "max_seconds")) == ([], [1, 2], [])


def test_a_seen_event_is_a_repeat_wherever_it_comes_again() -> None:
    """A seen event is a repeat, except at the place where it was seen."""
    event = told(5, "a")
    assert orders(sort([], [event], {event.identity: order(2)}, "idle_seconds")) == ([], [], [5])
    assert orders(sort([], [event], {event.identity: order(5)}, "idle_seconds")) == ([5], [], [])


def test_an_event_that_comes_twice_in_what_is_at_hand_counts_once() -> None:
    """A second delivery is a repeat, also of an event that is held back."""
    again = change(4, "UPDATE", transaction_key="a", sequence_number=1)
    first = change(1, "UPDATE", transaction_key="a", sequence_number=1)
    assert orders(sort([first], [again], {}, "max_events")) == ([], [1], [4])


def test_a_repeat_of_an_old_transaction_ends_no_new_one() -> None:
    """A repeat of an old transaction does not release a newer one."""
    old = told(3, "old")
    ready = sort([], [told(1, "a"), told(2, "a"), old], {old.identity: order(0)}, "max_events")
    assert orders(ready) == ([], [1, 2], [3])


@pytest.mark.parametrize(
    "other",
    [
        change(2, "DELETE", A, transaction_key="t", sequence_number=1),
        change(2, "UPDATE", B, transaction_key="t", sequence_number=1),
        change(2, "UPDATE", A, B, transaction_key="t", sequence_number=1),
        change(2, "UPDATE", A, transaction_key="t", sequence_number=2),
        change(2, "UPDATE", A, transaction_key="u", sequence_number=1),
        change(2, "UPDATE", A, transaction_key="t", sequence_number=1, entity="Contact"),
    ],
)
def test_identity_is_all_five(other: Any) -> None:
    """Identity is entity, transaction, number, change type and records together."""
    one = change(1, "UPDATE", A, transaction_key="t", sequence_number=1)
    assert orders(sort([], [one, other], {}, "idle_seconds")) == ([1, 2], [], [])


def test_events_without_a_transaction_are_never_repeats() -> None:
    """An event without a transaction has no identity and is never a repeat."""
    events = [change(at, "", transaction_key="", defect="rubbish") for at in (1, 2)]
    assert orders(sort([], events, {}, "max_events")) == ([1, 2], [], [])


def test_an_overflow_counts_after_all_of_its_transaction() -> None:
    """Events that were sent in full are applied before the overflow of their transaction."""
    events = [told(1, "a"), told(2, "a", kind="GAP_OVERFLOW"), told(3, "a"), told(4, "b")]
    assert [one.order for one in about_entities(events)] == [order(3)]
