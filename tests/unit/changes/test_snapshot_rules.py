"""Entity snapshots answer resync entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.entity import EntityState, unseeded
from airflow_provider_sfevents.spark.changes.order import ORIGIN
from airflow_provider_sfevents.spark.changes.record import Known
from airflow_provider_sfevents.spark.changes.snapshot_rules import (
    SnapshotOutcome,
    fold_snapshot,
    lift,
)
from airflow_provider_sfevents.spark.changes.source import ChangeSource, Progress
from tests.unit.changes.building import LAYOUT, A, change, entry, order, second, state, there

PROGRESS = Progress(
    source=ChangeSource(org_id="00D", consumer="c", topic="/data/ChangeEvents"),
    generation=1,
    epoch="e",
    batch_number=1,
    end="0a",
    heard_since=second(5),
)


def resolved(read_at: float, *kept: Any, values: Any = None, **known: Any) -> SnapshotOutcome:
    return fold_snapshot(A, Known(**known), kept, values, second(read_at), LAYOUT)


def test_a_read_replaces_the_row_and_what_is_newer_is_applied() -> None:
    """Kept events newer than the snapshot are applied, and no entry is left."""
    after = resolved(
        10,
        change(4, Phone="4"),
        change(12, Industry="12"),
        values={"Phone": "10"},
        state=state(1, Phone="1", Description="old"),
        entry=entry(3),
    )
    assert after.answer == "replaced"
    assert after.outcome.state is not None
    assert there(after.outcome.state.values) == {"Phone": "10", "Industry": "12"}
    assert after.outcome.state.order == order(12)
    assert (after.outcome.entry, after.outcome.settled, after.outcome.kept) == (None, order(12), ())


def test_a_read_one_second_after_the_records_last_change_has_it() -> None:
    """A read a second after the last change replaces the row, and an earlier one does not."""
    before = state(9, Phone="9")
    after = resolved(10, values={"Phone": "10"}, state=before)
    assert after.answer == "replaced"
    assert after.outcome.state is not None
    assert there(after.outcome.state.values) == {"Phone": "10"}
    assert resolved(9.9, values={"Phone": "10"}, state=before).outcome.state == before


def test_a_deletion_keeps_its_age_through_reads() -> None:
    """A record deleted long ago, which a read does not bring either, is as old as it was."""
    before = replace(state(3), deleted=True, values={})
    after = resolved(500, state=before)
    assert after.answer == "absent"
    assert after.outcome.state == replace(before, read_at=second(500))
    late = resolved(600, change(4, "CREATE", Phone="4"), state=after.outcome.state)
    assert late.outcome.counts == {"contained": 1}


def test_what_was_committed_within_the_second_before_the_read_is_applied_again() -> None:
    """An event from the second before a read is applied again: the read may lack it."""
    event = replace(change(9, Phone="9"), committed_at=second(9))
    assert resolved(10, event, values={}, entry=entry(3)).outcome.counts == {"contained": 1}
    assert resolved(9.9, event, values={}, entry=entry(3)).outcome.counts == {"applied": 1}


@pytest.mark.parametrize("read_at", [2, 3, 3.9])
def test_a_read_from_before_the_last_gap_is_refused(read_at: float) -> None:
    """A read from before the last gap changes neither row, entry nor kept events."""
    before = state(1, Phone="1")
    waiting = change(4, Phone="4")
    after = resolved(read_at, waiting, values={"Phone": "x"}, state=before, entry=entry(3))
    assert after.answer == "refused"
    assert (after.outcome.state, after.outcome.entry) == (before, entry(3))
    assert (after.outcome.kept, after.outcome.settled) == ((waiting,), None)


def test_events_before_the_last_gap_are_superseded() -> None:
    """Kept events before the last gap are superseded, whatever their commit time."""
    gap = entry(3).with_cause(entry(6))
    late = replace(change(4, Phone="4"), committed_at=second(30))
    after = resolved(10, late, values={"Phone": "10"}, entry=gap)
    assert after.outcome.state is not None
    assert after.outcome.state.values["Phone"] == "10"


def test_a_deleted_record_leaves_its_row() -> None:
    """A record that a read lacks is deleted; a kept update that may be newer marks it."""
    after = resolved(10, state=state(1, Phone="1"), entry=entry(3))
    assert after.answer == "deleted"
    assert after.outcome.state is not None
    assert after.outcome.state.deleted
    again = resolved(10, change(12, Phone="12"), state=state(1), entry=entry(3)).outcome
    assert again.entry is not None
    assert again.entry.reasons == ("no_base",)


def test_a_record_that_cannot_be_brought_up_to_date_stays_as_it_was_read() -> None:
    """A kept diff that does not fit marks the record; no kept event is then applied."""
    kept = [
        change(11, Phone="11"),
        change(12, Description="?", diffs=("Description",)),
        change(13, Phone="13"),
    ]
    after = resolved(10, *kept, values={"Phone": "10", "Description": "d"}, entry=entry(3)).outcome
    assert after.state is not None
    assert there(after.state.values) == {"Phone": "10", "Description": "d"}
    assert after.entry is not None
    assert (after.entry.reasons, after.entry.since, after.entry.cause_at) == (
        ("diff",),
        order(3),
        second(12),
    )
    # An event before the entry's last cause is in the read, and waits no longer.
    superseded = replace(change(2, Phone="2"), committed_at=second(11))
    again = resolved(10, superseded, *kept, values={"Phone": "10"}, entry=entry(3)).outcome
    assert after.kept == again.kept == tuple(kept)
    final = resolved(
        20, *after.kept, values={"Phone": "20"}, state=after.state, entry=after.entry
    ).outcome
    assert final.entry is None


def test_a_record_deleted_since_the_read_stays_deleted() -> None:
    """A record that was deleted after the read stays deleted, and later events apply."""
    gone = state(12, deleted=True)
    known: dict[str, Any] = {"state": gone, "entity_entry": entry(3, "overflow")}
    after = resolved(10, values={"Phone": "10"}, **known)
    assert (after.answer, after.outcome.state) == ("newer", gone)
    back = resolved(10, change(13, "UNDELETE", Phone="13"), values={"Phone": "10"}, **known)
    assert back.outcome.state is not None
    assert there(back.outcome.state.values) == {"Phone": "13"}


def test_a_record_without_an_entry_is_not_set_back() -> None:
    """A record without an entry keeps an event that the read may lack."""
    before = state(12, Phone="12")
    assert resolved(10, values={"Phone": "10"}, state=before).outcome.state == before


def test_a_record_that_was_committed_after_the_read_under_a_marked_entity_waits() -> None:
    """A record keeps its entry if its last event is newer than a read of a marked entity."""
    before = replace(state(2, Phone="2"), committed_at=second(30))
    after = resolved(10, values={"Phone": "10"}, state=before, entity_entry=entry(3, "overflow"))
    assert after.answer == "refused"
    assert after.outcome.entry is not None
    assert after.outcome.entry.cause_at == second(30)


def test_a_read_that_is_older_than_the_one_that_answered_the_entry_changes_nothing() -> None:
    """A read that is older than the record's own read after an overflow marks nothing."""
    before = replace(state(3, Phone="20", read=20), committed_at=second(20))
    after = resolved(10, values={"Phone": "10"}, state=before, entity_entry=entry(3, "overflow"))
    assert (after.answer, after.outcome.state, after.outcome.entry) == ("newer", before, None)


def test_resolving_again_changes_nothing() -> None:
    """A snapshot applied again after a kill gives the same rows."""
    known: dict[str, Any] = {"entry": entry(3)}
    kept = [change(11, Phone="11")]
    once = resolved(10, *kept, values={"Phone": "10"}, **known).outcome
    again = resolved(10, *kept, values={"Phone": "10"}, state=once.state, **known).outcome
    assert (again.state, again.entry, again.kept) == (once.state, once.entry, once.kept)


def test_a_wildcard_that_was_kept_applies_to_what_the_read_brought() -> None:
    """A kept wildcard nulls a field of an existing record, and makes no record."""
    wide = change(12, "UPDATE", "001*", nulled=("Phone",))
    after = resolved(
        10, wide, values={"Phone": "10", "Industry": "x"}, entity_entry=entry(3)
    ).outcome
    assert after.state is not None
    assert there(after.state.values) == {"Industry": "x"}
    gone = resolved(10, wide, entity_entry=entry(3)).outcome
    assert gone.state is not None
    assert (gone.state.deleted, gone.entry) == (True, None)


def test_seeding_is_a_full_read_after_the_first_event() -> None:
    """A new entity's entry is answered by a full read a second after its first event."""
    new = unseeded("Account", second(5))
    assert new.entry is not None
    assert new.entry.since == ORIGIN
    after = lift(new, PROGRESS, second(6), entity="Account", whole=True)
    assert after == EntityState(entity="Account", read_at=second(6))
    with pytest.raises(ConfigurationError, match="Read again"):
        lift(new, PROGRESS, second(5.5), entity="Account", whole=True)


def test_an_entity_that_no_event_told_of_may_be_seeded_since_reading_began() -> None:
    """An entity without events may be filled by a full read once a batch was applied."""
    after = lift(None, PROGRESS, second(6), entity="Contact", whole=True)
    assert after == EntityState(entity="Contact", read_at=second(6))
    with pytest.raises(ConfigurationError, match="followed without a gap only since"):
        lift(None, PROGRESS, second(5), entity="Contact", whole=True)
    with pytest.raises(ConfigurationError, match="no table yet"):
        lift(None, PROGRESS, second(6), entity="Contact", whole=False)
    with pytest.raises(ConfigurationError, match="no batch was applied"):
        lift(None, None, second(6), entity="Contact", whole=True)


def test_a_read_from_before_reading_began_is_refused_whatever_is_known() -> None:
    """A snapshot from before the first event is refused: later changes may be missing."""
    well = EntityState(entity="Account")
    for whole in (True, False):
        with pytest.raises(
            ConfigurationError, match=r"Account .*followed without a gap only since"
        ):
            lift(well, PROGRESS, PROGRESS.heard_since, entity="Account", whole=whole)


def test_single_records_do_not_answer_the_entry_of_an_entity() -> None:
    """Single records are refused while their entity has an entry, and accepted otherwise."""
    marked = EntityState(entity="Account", entry=entry(3, "overflow"))
    with pytest.raises(ConfigurationError, match="overflow"):
        lift(marked, PROGRESS, second(20), entity="Account", whole=False)
    well = EntityState(entity="Account")
    assert lift(well, PROGRESS, second(20), entity="Account", whole=False) == well


def test_a_read_that_is_older_than_the_last_full_one_is_refused() -> None:
    """A read older than the last full one is refused, and the same one is accepted."""
    state = EntityState(entity="Account", read_at=second(20))
    assert lift(state, PROGRESS, second(20), entity="Account", whole=True) == state
    for whole in (True, False):
        with pytest.raises(ConfigurationError, match="it knows less"):
            lift(state, PROGRESS, second(19), entity="Account", whole=whole)
