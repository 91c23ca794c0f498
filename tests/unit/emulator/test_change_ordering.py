"""A transaction's changes become the events that Salesforce would send."""

from __future__ import annotations

from typing import Any

from airflow_provider_sfevents.emulator.org.records.change_ordering import (
    Enriched,
    arrange,
)
from airflow_provider_sfevents.emulator.org.records.record_edits import ChangeDraft, Record


def _change(
    record_id: str, fields: dict[str, Any] | None = None, kind: str = "UPDATE", entity: str = "A"
) -> tuple[ChangeDraft, Enriched]:
    record = Record(id=record_id, entity=entity, values={})
    draft = ChangeDraft(
        change_type=kind,
        entity=entity,
        record_id=record_id,
        user_id="u",
        record=record,
        fields=fields or {},
    )
    return draft, {}


def _told(drafts: list[Any], records: int = 200) -> list[tuple[Any, ...]]:
    planned = arrange(drafts, most_records=records, most_changes=100)
    return [(one.sequence_number, one.change_type, one.entity, *one.record_ids) for one in planned]


def test_the_same_change_of_several_records_is_one_event() -> None:
    """Adjacent equal changes share an event; another value or entity starts a new one."""
    drafts = [
        _change("1", {"X": 1}),
        _change("2", {"X": 1}),
        _change("3", {"X": 2}),
        _change("4", {"X": 2}, entity="B"),
        _change("5", kind="DELETE"),
        _change("6", kind="DELETE"),
    ]
    assert _told(drafts) == [
        (1, "UPDATE", "A", "1", "2"),
        (2, "UPDATE", "A", "3"),
        (3, "UPDATE", "B", "4"),
        (4, "DELETE", "A", "5", "6"),
    ]


def test_an_event_holds_so_many_records_and_none_twice() -> None:
    """A new event starts at the limit, and when a record occurs again."""
    drafts = [_change(one, {"X": 1}) for one in ("1", "2", "3", "3")]
    assert _told(drafts, records=2) == [
        (1, "UPDATE", "A", "1", "2"),
        (2, "UPDATE", "A", "3"),
        (3, "UPDATE", "A", "3"),
    ]
    assert [one[3:] for one in _told(drafts, records=1)] == [("1",), ("2",), ("3",), ("3",)]


def test_channels_that_add_something_else_keep_events_apart() -> None:
    """Two records whose enriched values differ cannot share an event."""
    one, two = _change("1", {"X": 1})[0], _change("2", {"X": 1})[0]
    assert len(_told([(one, {"c": {"Y": 1}}), (two, {"c": {"Y": 2}})])) == 2
    assert len(_told([(one, {"c": {"Y": 1}}), (two, {"c": {"Y": 1}})])) == 1
