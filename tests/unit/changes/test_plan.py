"""The plan of a batch: entities as a whole, and the events of each record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.entity import EntityState, NewEntities, plan_entity
from airflow_provider_sfevents.spark.changes.order import before_batch
from airflow_provider_sfevents.spark.changes.plan import (
    ApplyPlan,
    check_first_batch,
    for_record,
    of_records,
    plan_batch,
    summarised,
)
from airflow_provider_sfevents.spark.changes.resync_entries import cause
from airflow_provider_sfevents.spark.changes.source import Progress, admit
from airflow_provider_sfevents.spark.changes.transactions import sort
from tests.unit.changes.building import LAYOUT, A, B, change, entry, order, second
from tests.unit.changes.test_source import PROGRESS, batch

WELL = EntityState(entity="Account")
NO_RECORD = "000000000000000AAA"


def planned(
    *events: Any,
    progress: Progress | None = PROGRESS,
    entities: Any = None,
    new: NewEntities = "unseeded",
    **given: Any,
) -> ApplyPlan:
    came = batch(ended_by="idle_seconds", **given)
    ready = sort([], events, {}, came.ended_by)
    return plan_batch(
        progress,
        came,
        admit(progress, came),
        summarised(events, ready),
        entities if entities is not None else {"Account": WELL},
        {"Account": LAYOUT},
        new_entities=new,
    )


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (change(1, "GAP_UPDATE", "001*"), "gap"),
        (change(1, "GAP_CREATE", NO_RECORD), "gap"),
        (change(1, "GAP_DELETE", NO_RECORD), "gap"),
        (change(1, "GAP_DELETE", "001*"), "gap"),
        (change(1, "GAP_OVERFLOW", NO_RECORD), "overflow"),
        (change(1, "GAP_OVERFLOW", A), "overflow"),
        (change(1, "UPDATE", "001*"), "wildcard"),
        (change(1, "DELETE", "001*"), "wildcard"),
        (change(1, "CREATE", "001*", Phone="1"), "wildcard"),
        (change(1, "UPDATE", NO_RECORD, Phone="1"), "wildcard"),
        (change(1, "SNAPSHOT", "001*"), "unknown_type"),
        (change(1, "", "", defect="rubbish"), "undecodable"),
        (change(1, "UPDATE", "001*", nulled=("New__c",)), "undecodable"),
    ],
)
def test_what_is_about_more_than_its_records_marks_the_entity(event: Any, reason: str) -> None:
    """An event about the whole entity marks it from the event's place, and goes to no record."""
    plan = planned(event)
    found = plan.entities["Account"].state.entry
    assert found is not None
    assert (found.since, found.reasons, found.cause_at) == (order(1), (reason,), second(1))
    assert list(of_records([event], plan.progress)) == []
    assert len(plan.entities["Account"].quarantined) == (reason in {"unknown_type", "undecodable"})


def test_a_change_of_a_prefix_goes_to_every_record_of_it() -> None:
    """A change of a prefix that names fields goes to its records and marks nothing."""
    wide = change(1, "UPDATE", "001*", nulled=("Phone",))
    plan = planned(wide).entities["Account"]
    assert (plan.state.entry, plan.prefix_updates) == (None, (wide,))
    assert for_record(A, plan.prefix_updates) == [wide]
    assert for_record("003000000000001AAA", plan.prefix_updates) == []


def test_a_change_of_a_prefix_is_kept_while_the_entity_is_marked() -> None:
    """A change of a prefix is kept after the entity's entry, and applied before it."""
    early, late = (change(at, "UPDATE", "001*", nulled=("Phone",)) for at in (1, 3))
    events = [late, change(2, "GAP_OVERFLOW", NO_RECORD), early]
    plan = plan_entity(replace(WELL, read_at=second(0)), None, events, LAYOUT)
    assert (plan.prefix_updates, plan.kept) == ((early,), (late,))


def test_a_change_of_a_prefix_is_kept_until_the_entity_has_been_read() -> None:
    """A change of a prefix is kept until a snapshot surely contains it."""
    wide = change(1, "UPDATE", "001*", nulled=("Phone",))
    unread = plan_entity(WELL, None, [wide], LAYOUT)
    assert (unread.prefix_updates, unread.kept) == ((wide,), (wide,))
    read = plan_entity(replace(WELL, read_at=second(0)), None, [wide], LAYOUT)
    assert (read.prefix_updates, read.kept) == ((wide,), ())


def test_records_and_wildcards_of_one_event_part() -> None:
    """Each record gets an event once, by its id of 18 characters; the entity gets the rest."""
    event = change(1, "GAP_UPDATE", A[:15], A, B, "001*")
    plan = planned(event)
    assert [(entity, one) for entity, one, _ in of_records([event], plan.progress)] == [
        ("Account", A),
        ("Account", B),
    ]
    assert plan.entities["Account"].state.entry == entry(1).with_cause(
        cause(order(1), second(1), "gap", "GAP_UPDATE of 001*")
    )


def test_an_overflow_marks_from_its_transactions_end() -> None:
    """An overflow marks after its transaction's normal events, which are applied."""
    events = [
        change(at, kind, *ids, transaction_key="t", sequence_number=at)
        for at, kind, ids in (
            (1, "UPDATE", [A]),
            (2, "GAP_OVERFLOW", [NO_RECORD]),
            (3, "UPDATE", [B]),
        )
    ]
    found = planned(*events).entities["Account"].state.entry
    assert found is not None
    assert found.since == order(3)


def test_a_full_read_answers_what_was_committed_before_it() -> None:
    """An overflow that the read surely contains marks nothing."""
    read = replace(WELL, read_at=second(10))
    plan = plan_entity(read, None, [change(9, "GAP_OVERFLOW", NO_RECORD)], LAYOUT)
    assert plan.state == read


def test_a_loss_marks_entities_that_the_batch_has_nothing_of() -> None:
    """A loss marks all entities of the source, from before the batch's first event."""
    both = {"Account": WELL, "Contact": EntityState(entity="Contact")}
    plan = planned(change(1), entities=both, losses=("expired",))
    for one in plan.entities.values():
        assert one.state.entry is not None
        assert (one.state.entry.since, one.state.entry.reasons) == (before_batch(2, 4), ("loss",))
    assert not plan.progress.is_whole


def test_an_event_that_tells_nothing_marks_all_entities() -> None:
    """An event without an entity may be of any entity."""
    both = {"Account": WELL, "Contact": EntityState(entity="Contact")}
    plan = planned(change(1, "", entity="", transaction_key="", defect="rubbish"), entities=both)
    assert [one.state.entry is not None for one in plan.entities.values()] == [True, True]
    assert (plan.progress.is_whole, plan.progress.heard_since) == (False, second(1))


def test_a_new_entity_waits_to_be_filled() -> None:
    """A new entity is marked for a snapshot, unless it began empty and nothing was lost."""
    first: Any = {"progress": None, "entities": {}, "batch_number": 1}
    found = planned(change(1), **first).entities["Account"].state.entry
    assert found is not None
    assert (found.reasons, found.cause_at) == (("unseeded",), second(1))
    assert planned(change(1), new="empty", **first).entities["Account"].state.entry is None
    lost = planned(change(1), new="empty", losses=("expired",), **first)
    assert lost.entities["Account"].state.entry is not None


@pytest.mark.parametrize(
    ("is_whole", "reasons"), [(True, None), (False, ("unseeded",))], ids=["whole", "after a loss"]
)
def test_an_entity_that_is_told_of_later_is_empty_unless_something_was_lost(
    is_whole: bool, reasons: Any
) -> None:
    """After a loss a new entity is not taken to be empty: its first events may be lost."""
    before = replace(PROGRESS, is_whole=is_whole)
    found = planned(change(1), progress=before, entities={}, new="empty").entities["Account"]
    assert (found.state.entry and found.state.entry.reasons) == reasons


@pytest.mark.parametrize("batch_number", [2, 4])
def test_a_table_that_begins_later_is_not_empty(batch_number: int) -> None:
    """`new_entities='empty'` is refused if the first batch to apply is not batch 1."""
    check_first_batch(None, batch(batch_number=batch_number), "unseeded")
    check_first_batch(PROGRESS, batch(batch_number=batch_number), "empty")
    with pytest.raises(ConfigurationError, match="events came before it"):
        check_first_batch(None, batch(batch_number=batch_number), "empty")


def test_an_empty_batch_moves_on() -> None:
    """An empty batch marks nothing and moves the progress."""
    plan = planned()
    assert plan.progress.batch_number == 4
    assert plan.entities["Account"].state == WELL
