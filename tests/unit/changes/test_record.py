"""One record and its events: every rule, and every place where two rules meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.spark.changes.record import Known, Outcome, RecordState, fold
from tests.unit.changes.building import LAYOUT, A, B, change, entry, order, second, state, there


def folded(*events: Any, known: Known | None = None, **state_and_entries: Any) -> Outcome:
    return fold(A, known or Known(**state_and_entries), events, LAYOUT)


def row(outcome: Outcome) -> dict[str, Any] | None:
    """Return the record as a reader sees it."""
    found = outcome.state
    return None if found is None or found.deleted else there(found.values)


@pytest.mark.parametrize("change_type", ["CREATE", "UNDELETE"])
def test_a_whole_record_replaces_the_row(change_type: str) -> None:
    """CREATE and UNDELETE replace the whole row."""
    after = folded(change(5, change_type, Industry="Mining"), state=state(1, Phone="1"))
    assert row(after) == {"Industry": "Mining"}
    assert after.state is not None
    assert after.state.order == order(5)


def test_events_apply_in_their_order_not_in_the_order_given() -> None:
    """Events apply by their place in the batch, in whatever order they are given."""
    events = [change(3, Industry="c"), change(1, "CREATE", Industry="a"), change(2, Industry="b")]
    assert row(folded(*events)) == {"Industry": "c"}


def test_an_event_at_or_before_the_last_one_changes_nothing() -> None:
    """An old batch that is applied again brings back neither a value nor a deleted record."""
    gone = state(5, deleted=True)
    after = folded(change(4, "CREATE"), change(5, "UNDELETE"), change(3, "GAP_UPDATE"), state=gone)
    assert (after.state, after.entry, after.counts) == (gone, None, {"old": 3})


def test_an_update_without_a_record_writes_nothing_and_marks() -> None:
    """An UPDATE of a missing record marks it `no_base`; later events are kept, a CREATE too."""
    after = folded(change(1, Industry="x"), change(2, Industry="y"), change(3, "CREATE"))
    assert after.state is None
    assert after.entry is not None
    assert after.entry.reasons == ("no_base",)
    assert [one.order for one in after.kept] == [order(2), order(3)]


def test_an_update_of_a_deleted_record_marks_it() -> None:
    """A deleted record stays deleted without an event that brings it back."""
    after = folded(change(2, Industry="x"), state=state(1, deleted=True))
    assert row(after) is None
    assert after.entry is not None
    assert after.entry.reasons == ("no_base",)


def test_deleted_and_undeleted_in_one_transaction() -> None:
    """A record that is deleted and undeleted in one transaction exists."""
    events = [
        change(2, "DELETE", transaction_key="t"),
        change(3, "UNDELETE", Phone="2", transaction_key="t"),
    ]
    assert row(folded(*events, state=state(1, Phone="1"))) == {"Phone": "2"}


@pytest.mark.parametrize("change_type", ["GAP_CREATE", "GAP_UPDATE", "GAP_UNDELETE"])
def test_a_gap_marks_and_keeps_what_follows(change_type: str) -> None:
    """A gap leaves the row; later events of the record are kept, a CREATE too."""
    before = state(1, Phone="1")
    after = folded(change(2, change_type), change(3, "CREATE", Phone="3"), state=before)
    assert after.state == before
    assert after.entry == entry(2)
    assert [one.order for one in after.kept] == [order(3)]


@pytest.mark.parametrize("change_type", ["DELETE", "GAP_DELETE"])
def test_a_deletion_settles_a_marked_record(change_type: str) -> None:
    """A deletion removes the record's entry and all of its kept events."""
    after = folded(
        change(3, Phone="3"),
        change(4, change_type),
        change(5, "UNDELETE", Phone="5"),
        state=state(1, Phone="1"),
        entry=entry(2),
    )
    assert row(after) == {"Phone": "5"}
    assert (after.entry, after.kept, after.settled) == (None, (), order(4))


def test_a_deletion_of_an_unknown_record_leaves_a_tombstone() -> None:
    """A deletion of an unknown record leaves a tombstone, so that late events are old."""
    after = folded(change(4, "DELETE"))
    assert after.state == RecordState(
        values={}, deleted=True, order=order(4), committed_at=second(4)
    )


def test_under_a_marked_entity_only_deletions_apply() -> None:
    """Under a marked entity a deletion applies at once, and an UNDELETE is kept."""
    known = Known(state=state(1, Phone="1"), entity_entry=entry(2, "overflow"))
    after = folded(change(3, Phone="3"), change(4, "DELETE"), change(5, "UNDELETE"), known=known)
    assert row(after) is None
    assert [one.order for one in after.kept] == [order(5)]
    assert after.entry is None


def test_an_entry_that_begins_later_holds_nothing_back() -> None:
    """An entry that a killed job has left holds back no event from before its beginning."""
    after = folded(change(2, Phone="2"), change(4, Phone="4"), state=state(1), entry=entry(3))
    assert row(after) == {"Phone": "2"}
    assert [one.order for one in after.kept] == [order(4)]


def test_a_deletion_leaves_an_entry_that_begins_later() -> None:
    """A deletion leaves an entry that begins later, which a killed job has left."""
    after = folded(change(2, "DELETE"), state=state(1), entry=entry(3))
    assert after.entry == entry(3)


def test_an_update_of_a_prefix_is_an_update_of_the_record_that_is_there() -> None:
    """An update of a prefix sets the fields with a value, and nulls the others that it names."""
    given: Any = {"changed": ("Industry", "Phone", "Address.City"), "nulled": ("Phone",)}
    wide = change(3, "UPDATE", "001*", Industry="y", Phone="3", Description="enriched", **given)
    address = {"Street": None, "City": "Bath"}
    before = state(1, Phone="1", Industry="x", Address=address)
    after = folded(wide, state=before)
    assert (row(after), after.entry, after.counts) == ({"Industry": "y"}, None, {"applied": 1})


def test_an_update_of_a_prefix_applies_at_its_place() -> None:
    """An update of a prefix changes no later value and no record that is created later."""
    wide = change(3, "UPDATE", "001*", nulled=("Phone",))
    before = state(1, Phone="1", Industry="x")
    assert row(folded(change(2, Phone="2"), wide, state=before)) == {"Industry": "x"}
    assert row(folded(wide, change(4, Phone="4"), state=before)) == {"Industry": "x", "Phone": "4"}
    assert row(folded(wide, change(4, "CREATE", Phone="4"))) == {"Phone": "4"}


@pytest.mark.parametrize("before", [None, state(1, deleted=True, Phone="1")])
def test_a_change_of_a_prefix_passes_over_what_is_not_there(before: RecordState | None) -> None:
    """A change of a prefix neither makes nor marks a missing record."""
    after = folded(change(3, "UPDATE", "001*", nulled=("Phone",)), state=before)
    assert (after.state, after.entry, after.counts) == (before, None, {"absent": 1})


def test_a_change_of_a_prefix_is_kept_for_a_marked_record() -> None:
    """A change of a prefix is kept unchanged, so that it never makes a missing record."""
    wide = change(3, "UPDATE", "001*", nulled=("Phone",))
    assert folded(wide, state=state(1), entry=entry(2)).kept == (wide,)


def test_late_is_marked_and_not_applied() -> None:
    """After a break, an event older than its record marks it and is not applied; so a deletion."""
    before = state(1, Phone="1")
    for late in (change(3, Phone="3"), change(3, "DELETE"), change(3, "CREATE")):
        after = folded(replace(late, suspect=True, committed_at=second(0)), state=before)
        assert after.state == before
        assert after.entry is not None
        assert after.entry.reasons == ("late",)
        assert after.entry.cause_at == second(1)


def test_an_event_of_the_same_second_is_not_late() -> None:
    """An event of the same second is not late, because commit times are whole seconds."""
    event = replace(change(3, Phone="3"), suspect=True, committed_at=second(1))
    assert row(folded(event, state=state(1))) == {"Phone": "3"}


def test_without_a_break_an_older_commit_time_applies() -> None:
    """The order of delivery counts, not the clocks of two servers."""
    event = replace(change(3, Phone="3"), committed_at=second(0))
    after = folded(event, state=state(1))
    assert row(after) == {"Phone": "3"}
    assert after.state is not None
    assert after.state.committed_at == second(1)


def test_a_marked_record_keeps_a_late_event() -> None:
    """A late event of a marked record is kept until an entity snapshot."""
    event = replace(change(3, Phone="3"), suspect=True, committed_at=second(0))
    assert folded(event, state=state(1), entry=entry(2)).kept == (event,)


def test_what_a_read_surely_contains_changes_nothing() -> None:
    """An event, even a gap, from a second or more before a read changes nothing."""
    before = state(1, read=10, Phone="10")
    after = folded(change(8, "GAP_UPDATE"), change(9, Phone="9"), state=before)
    assert (after.state, after.entry, after.counts) == (before, None, {"contained": 2})
    event = replace(change(9, Phone="9"), committed_at=second(9.5))
    assert row(folded(event, state=before)) == {"Phone": "9"}


def test_a_full_read_speaks_of_records_that_it_did_not_bring() -> None:
    """An event from before a full read makes no record that the read did not bring."""
    known = Known(entity_read_at=second(10))
    assert folded(change(8, "CREATE"), change(9), known=known).state is None
    after = folded(change(11, "CREATE", Phone="1"), known=known)
    assert after.state is not None
    assert after.state.read_at == second(10)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (change(2, "SNAPSHOT", Phone="2"), "unknown_type"),
        (change(2, "MERGED"), "unknown_type"),
        (change(2, defect="bit 99 is beyond the schema"), "undecodable"),
        (change(2, changed=("New__c",)), "undecodable"),
    ],
)
def test_what_cannot_be_understood_is_quarantined_and_marks(event: Any, reason: str) -> None:
    """An unreadable event is quarantined with its reason, and marks the record."""
    before = state(1, Phone="1")
    after = folded(event, change(3, Phone="3"), state=before)
    assert after.state == before
    assert after.entry is not None
    assert after.entry.reasons == (reason,)
    assert [one for one, _ in after.quarantined] == [event]
    assert len(after.kept) == 1


def test_a_diff_that_cannot_be_applied_leaves_its_field() -> None:
    """If a diff cannot be applied, the other fields are set, and the record is marked."""
    event = change(2, Phone="2", Description="--- \n+++ x", diffs=("Description",))
    after = folded(event, change(3, Phone="3"), state=state(1, Description="long"))
    assert row(after) == {"Phone": "2", "Description": "long"}
    assert after.entry is not None
    assert after.entry.reasons == ("diff",)
    assert after.entry.detail.startswith("Description: ")
    assert len(after.kept) == 1


def test_causes_add_up() -> None:
    """An entry has its first cause's place, and its latest cause's place and time."""
    after = folded(change(2, "GAP_UPDATE"), change(5, "SNAPSHOT"), state=state(1))
    assert after.entry is not None
    assert (after.entry.since, after.entry.last, after.entry.cause_at) == (
        order(2),
        order(5),
        second(5),
    )
    assert after.entry.reasons == ("gap", "unknown_type")


def test_folding_again_changes_nothing() -> None:
    """A job that is run again after its rows were written decides the same."""
    events = [change(2, Phone="2"), change(3, "GAP_UPDATE"), change(4, Phone="4")]
    once = folded(*events, state=state(1))
    again = folded(*events, state=once.state, entry=once.entry)
    assert (again.state, again.entry, again.kept) == (once.state, once.entry, once.kept)


def test_kept_events_are_about_their_record_alone() -> None:
    """An event of several records is kept for each of them alone."""
    after = folded(change(3, "UPDATE", A, B, Phone="3"), state=state(1), entry=entry(2))
    assert [one.record_ids for one in after.kept] == [(A,)]


def test_the_states_passed_through_are_told_on_request() -> None:
    """The states that a record went through are returned on request, with their times."""
    events = [change(2, Phone="2"), change(3, "DELETE")]
    after = fold(A, Known(state=state(1)), events, LAYOUT, with_history=True)
    assert [(one.deleted, one.committed_at) for one in after.passed] == [
        (False, second(2)),
        (True, second(3)),
    ]
    assert folded(*events, state=state(1)).passed == ()
