"""Change events: one record's changes over the Pub/Sub API.

On a real org one record is created, changed and deleted.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.contract.changing import BITMAPS, HEADER, Change, watched

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

_KINDS = ("CREATE", "UPDATE", "DELETE", "UNDELETE")
_GAPS = ("GAP_CREATE", "GAP_UPDATE", "GAP_DELETE", "GAP_UNDELETE", "GAP_OVERFLOW")
_CALL = {"Sforce-Call-Options": "client=contract"}


class Story(NamedTuple):
    """Events of a record that was created, changed, emptied and deleted."""

    record_id: str
    created: Change
    updated: Change
    emptied: Change
    deleted: Change


@pytest.fixture(scope="module")
def story(org: OrgUnderTest) -> Story:
    return lived(org)


def lived(org: OrgUnderTest) -> Story:
    """Create, change and delete a record over REST, and read its four events."""
    entity = org.need("entity")
    with watched(org, f"/data/{entity}ChangeEvent") as watch:
        made = org.rest("POST", f"sobjects/{entity}", {"Name": f"Contract {uuid.uuid4()}"}, **_CALL)
        assert made.status_code == 201, made.text
        record_id = made.json()["id"]
        path = f"sobjects/{entity}/{record_id}"
        for phone in ("555 0100", None):
            assert org.rest("PATCH", path, {"Phone": phone}).status_code == 204
        assert org.rest("DELETE", path).status_code == 204
        changes = watch.until("CREATE", "UPDATE", "DELETE")
    assert [one.what[0] for one in changes] == ["CREATE", "UPDATE", "UPDATE", "DELETE"]
    return Story(record_id, *changes)


def test_the_header_is_the_first_field(story: Story) -> None:
    """The header is bit 0 of every bitmap.

    Source: Event Deserialization Considerations page, schemas of live orgs.
    """
    assert story.created.schema["fields"][0]["name"] == "ChangeEventHeader"


def test_all_other_fields_may_be_null(story: Story) -> None:
    """All other fields are nullable, also CreatedDate. Source: schemas of live orgs."""
    for field in story.created.schema["fields"][1:]:
        assert field["type"][0] == "null"


def test_the_header_names_entity_and_record(org: OrgUnderTest, story: Story) -> None:
    """The header has the entity and 18-character record ids.

    Source: Change Event Header Fields page.
    """
    for change in story[1:]:
        assert change.header["entityName"] == org.entity
        assert change.header["recordIds"] == [story.record_id]
        assert len(change.header["recordIds"][0]) == 18
        assert (change.header["commitUser"][:3], len(change.header["commitUser"])) == ("005", 18)


def test_transactions_are_told_apart(story: Story) -> None:
    """Each transaction has a key of its own and numbers from 1.

    Source: Change Event Header Fields page.
    """
    headers = [one.header for one in story[1:]]
    assert len({one["transactionKey"] for one in headers}) == 4
    assert [one["sequenceNumber"] for one in headers] == [1, 1, 1, 1]


def test_commit_times_are_whole_seconds_in_milliseconds(story: Story) -> None:
    """Commit times are whole seconds in milliseconds. Source: live logs."""
    assert story.created.header["commitTimestamp"] % 1000 == 0
    assert story.created.header["commitTimestamp"] > 1_600_000_000_000


def test_the_origin_names_api_and_client(story: Story) -> None:
    """The origin has the API's version, and the client if the request named it.

    Source: Change Event Header Fields page, live logs.
    """
    origin = "com/salesforce/api/rest/62.0"
    assert story.created.header["changeOrigin"] == f"{origin};client=contract"
    assert story.updated.header["changeOrigin"] == origin


def test_commit_numbers_may_not_fit_into_a_double(story: Story) -> None:
    """Commit numbers exceed 2^53, grow, and are not unique. Source: Live logs since 2025."""
    numbers = [one.header["commitNumber"] for one in story[1:]]
    assert numbers == sorted(numbers)
    assert numbers[0] > 2**53


@pytest.mark.parametrize("kind", ["created", "deleted"])
def test_only_updates_have_bitmaps(story: Story, kind: str) -> None:
    """All three arrays are empty except in updates. Source: Change Event Header Fields page."""
    header = getattr(story, kind).header
    assert [header[name] for name in BITMAPS] == [[], [], []]


def test_a_new_record_comes_whole(story: Story) -> None:
    """A creation has all fields with a value, including system fields.

    Source: Change Data Capture guide.
    """
    assert {"Name", "OwnerId", "CreatedDate", "CreatedById"} <= set(story.created.values)


def test_an_update_has_a_bitmap(story: Story) -> None:
    """A bitmap is upper-case hex of whole bytes; bits are fields of its schema.

    Source: Event Deserialization Considerations page.
    """
    [bitmap, *_] = story.updated.header["changedFields"]
    digits = bitmap.removeprefix("0x")
    assert (bitmap[:2], digits, len(digits) % 2) == ("0x", digits.upper(), 0)
    assert digits[:2] != "00"
    assert {"Phone", "LastModifiedDate"} <= story.updated.named("changedFields")
    assert story.updated.record["Phone"] == "555 0100"
    assert story.updated.header["nulledFields"] == []


def test_the_header_is_never_in_a_bitmap(story: Story) -> None:
    """The header's bit, the lowest, is never set.

    Source: Event Deserialization Considerations page.
    """
    for change in (story.updated, story.emptied):
        assert HEADER not in {name for bitmaps in BITMAPS for name in change.named(bitmaps)}


def test_a_field_set_to_null_is_named(story: Story) -> None:
    """A field set to null is in `nulledFields`, to distinguish it from an unchanged one.

    Source: Change Event Header Fields page.
    """
    assert story.emptied.record["Phone"] is None
    assert story.emptied.named("nulledFields") == {"Phone"}


def test_what_did_not_change_is_null(story: Story) -> None:
    """An update has only the changed fields. Source: Change Data Capture guide."""
    assert story.updated.record["Name"] is None


def test_a_deleted_record_comes_without_fields(story: Story) -> None:
    """A deletion has no fields. Source: Change Data Capture guide."""
    assert not any(
        value
        for name, value in story.deleted.record.items()
        if name not in {"ChangeEventHeader", "LastModifiedDate"}
    )


def test_kinds_of_change(story: Story) -> None:
    """The ChangeType enumeration begins with nine symbols.

    Source: Change Event Header Fields page, schemas of live orgs.
    """
    assert _symbols(story)[:9] == [*_KINDS, *_GAPS]


def test_there_are_nine_kinds_of_change(story: Story) -> None:
    """The ChangeType enumeration has exactly nine symbols.

    Source: Change Event Header Fields page.
    """
    assert len(_symbols(story)) == 9


def test_the_tenth_kind_of_change_is_reserved(story: Story) -> None:
    """The tenth symbol is SNAPSHOT, and no event has it.

    Source: schemas of live orgs since 2026.
    """
    assert _symbols(story)[9:] == ["SNAPSHOT"]


def _symbols(story: Story) -> list[str]:
    fields = story.created.schema["fields"][0]["type"]["fields"]
    [kind] = [one["type"] for one in fields if one["name"] == "changeType"]
    return list(kind["symbols"])


def test_a_change_event_has_a_uuid(story: Story) -> None:
    """A change event has a UUID in `event.id`. Source: live logs of two clients."""
    event_id = story.created.event.event.id
    assert str(uuid.UUID(event_id)) == event_id


def test_a_change_event_has_no_id(story: Story) -> None:
    """A change event has no `event.id`. Source: event message durability page."""
    assert not story.created.event.event.id
