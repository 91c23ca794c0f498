"""Change events: how a change of a record comes over the Pub/Sub API. On a real org one record is made, changed and deleted."""

from __future__ import annotations

import io
import json
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


class Change(NamedTuple):
    """A change event, decoded by its own schema."""

    event: Any
    schema: dict[str, Any]
    record: dict[str, Any]

    @property
    def header(self) -> dict[str, Any]:
        return dict(self.record["ChangeEventHeader"])


class Story(NamedTuple):
    """What came of one record that was made, changed and deleted."""

    record_id: str
    created: Change
    updated: Change
    deleted: Change


_CODES = ("CREATE", "UPDATE", "DELETE")


@pytest.fixture(scope="module")
def story(org: OrgUnderTest) -> Story:
    """Make, change and delete a record over REST, and read the three events; three deliveries."""
    entity = org.need("entity")
    with org.client.subscribe(
        topic_name=f"/data/{entity}ChangeEvent",
        replay_preset=pb.CUSTOM,
        replay_id=org.base(),
        num_requested=3,
    ) as stream:
        made = org.rest("POST", f"sobjects/{entity}", {"Name": f"Contract {uuid.uuid4()}"})
        assert made.status_code == 201, made.text
        record_id = made.json()["id"]
        path = f"sobjects/{entity}/{record_id}"
        assert org.rest("PATCH", path, {"Phone": "555 0100"}).status_code == 204
        assert org.rest("DELETE", path).status_code == 204
        events = stream.take(3)
    changes = [_decoded(org, one) for one in events]
    assert [one.header["changeType"] for one in changes] == list(_CODES)
    return Story(record_id, *changes)


def _decoded(org: OrgUnderTest, event: Any) -> Change:
    schema = json.loads(org.client.get_schema(event.event.schema_id).schema_json)
    raw = io.BytesIO(event.event.payload)
    record = fastavro.schemaless_reader(raw, fastavro.parse_schema(dict(schema)))
    assert not raw.read(), "bytes are left over: the event is not of its own schema"
    assert isinstance(record, dict)
    return Change(event, schema, record)


def test_the_header_is_the_first_field(story: Story) -> None:
    """Bit 0 of every bitmap. Source: Event Deserialization Considerations page, schemas of live orgs."""
    assert story.created.schema["fields"][0]["name"] == "ChangeEventHeader"


def test_all_other_fields_may_be_null(story: Story) -> None:
    """CreatedDate too. Source: schemas of live orgs."""
    for field in story.created.schema["fields"][1:]:
        assert field["type"][0] == "null"


def test_the_header_names_entity_and_record(org: OrgUnderTest, story: Story) -> None:
    """With ids of 18 characters. Source: Change Event Header Fields page."""
    for change in (story.created, story.updated, story.deleted):
        assert change.header["entityName"] == org.entity
        assert change.header["recordIds"] == [story.record_id]
        assert len(change.header["recordIds"][0]) == 18
        assert (change.header["commitUser"][:3], len(change.header["commitUser"])) == ("005", 18)


def test_transactions_are_told_apart(story: Story) -> None:
    """Each has a key of its own and numbers from 1. Source: Change Event Header Fields page."""
    headers = [one.header for one in (story.created, story.updated, story.deleted)]
    assert len({one["transactionKey"] for one in headers}) == 3
    assert [one["sequenceNumber"] for one in headers] == [1, 1, 1]


def test_commit_times_are_whole_seconds_in_milliseconds(story: Story) -> None:
    """Source: live logs."""
    assert story.created.header["commitTimestamp"] % 1000 == 0
    assert story.created.header["commitTimestamp"] > 1_600_000_000_000


def test_the_origin_names_the_api(story: Story) -> None:
    """`com/salesforce/api/rest/` and the version. Source: Change Event Header Fields page."""
    assert story.created.header["changeOrigin"].startswith("com/salesforce/api/rest/62.0")


def test_a_new_record_comes_whole(story: Story) -> None:
    """All fields that have a value, and no bitmaps. Source: Change Data Capture guide."""
    assert story.created.record["Name"]
    assert story.created.header["changedFields"] == []


def test_an_update_has_a_bitmap(story: Story) -> None:
    """Upper-case hex of whole bytes; bits are fields of its own schema. Source: Event Deserialization Considerations page."""
    [bitmap, *_] = story.updated.header["changedFields"]
    digits = bitmap.removeprefix("0x")
    assert (bitmap[:2], digits, len(digits) % 2) == ("0x", digits.upper(), 0)
    bits = int(digits, 16)
    names = [field["name"] for field in story.updated.schema["fields"]]
    changed = {name for place, name in enumerate(names) if bits >> place & 1}
    assert {"Phone", "LastModifiedDate"} <= changed
    assert story.updated.record["Phone"] == "555 0100"


def test_what_did_not_change_is_null(story: Story) -> None:
    """An update has what changed alone. Source: Change Data Capture guide."""
    assert story.updated.record["Name"] is None


def test_a_deleted_record_comes_without_fields(story: Story) -> None:
    """Source: Change Data Capture guide."""
    assert not any(
        value
        for name, value in story.deleted.record.items()
        if name not in {"ChangeEventHeader", "LastModifiedDate"}
    )


def test_kinds_of_change(story: Story) -> None:
    """The enumeration has nine symbols, and since 2026 SNAPSHOT. Source: schemas of live orgs."""
    header = story.created.schema["fields"][0]["type"]
    [kind] = [one["type"] for one in header["fields"] if one["name"] == "changeType"]
    gaps = [f"GAP_{name}" for name in ("CREATE", "UPDATE", "DELETE", "UNDELETE", "OVERFLOW")]
    known = ["CREATE", "UPDATE", "DELETE", "UNDELETE", *gaps]
    assert kind["symbols"][:9] == known
    assert kind["symbols"][9:] in ([], ["SNAPSHOT"])


def test_a_change_event_has_a_uuid(story: Story) -> None:
    """In `event.id`. Source: live logs of two clients."""
    event_id = story.created.event.event.id
    assert str(uuid.UUID(event_id)) == event_id


def test_a_change_event_has_no_id(story: Story) -> None:
    """`event.id` is not there. Source: event message durability page."""
    assert not story.created.event.event.id
