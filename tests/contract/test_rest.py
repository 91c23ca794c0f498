"""REST beside the bus: schemas, and publishing as a record."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.contract.orgs import TEXT

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


def test_rest_gives_the_schema_by_its_id(org: OrgUnderTest) -> None:
    """REST returns GetSchema's record with its id as `uuid`.

    Source: Platform Event Schema by Schema ID page.
    """
    body = org.rest("GET", f"event/eventSchema/{org.schema_id}?payloadFormat=COMPACT").json()
    assert body.pop("uuid") == org.schema_id
    assert body == org.schema


def test_rest_gives_the_schema_by_the_events_name(org: OrgUnderTest) -> None:
    """REST returns the schema by the event's name.

    Source: Platform Event Schema by Event Name page.
    """
    name = org.topic.rpartition("/")[2]
    body = org.rest("GET", f"sobjects/{name}/eventSchema?payloadFormat=COMPACT").json()
    assert (body["uuid"], body["name"]) == (org.schema_id, name)


def test_a_schema_is_expanded_unless_asked_otherwise(org: OrgUnderTest) -> None:
    """The default schema has data and channel, as in the Streaming API.

    Source: Platform Event Schema pages.
    """
    body = org.rest("GET", f"event/eventSchema/{org.schema_id}").json()
    data, channel = body["fields"]
    assert (data["name"], channel["name"]) == ("data", "channel")
    assert [one["name"] for one in data["type"]["fields"]] == ["schema", "payload", "event"]


def test_an_event_published_as_a_record_is_delivered(org: OrgUnderTest) -> None:
    """REST returns the UUID that subscribers see. Source: Platform Events guide, known clients."""
    base = org.base()
    name = org.topic.rpartition("/")[2]
    answer = org.rest("POST", f"sobjects/{name}", {TEXT: "by REST"})
    org.counter.published += 1
    assert answer.status_code == 201
    body = answer.json()
    [queued] = body["errors"]
    assert (body["success"], queued["statusCode"]) == (True, "OPERATION_ENQUEUED")
    assert str(uuid.UUID(queued["message"])) == queued["message"]
    with org.after(base, 1) as stream:
        [got] = stream.take(1)
    assert got.event.id == queued["message"]


def test_another_payload_format_is_refused(org: OrgUnderTest) -> None:
    """A payload format other than COMPACT and EXPANDED is refused.

    Source: Platform Event Schema pages.
    """
    answer = org.rest("GET", f"event/eventSchema/{org.schema_id}?payloadFormat=FLAT")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "path", ["event/eventSchema/AAAAAAAAAAAAAAAAAAAAAA", "sobjects/No_Such__e/eventSchema"]
)
def test_a_schema_that_is_not_there(org: OrgUnderTest, path: str) -> None:
    """An unknown schema is HTTP 404. Source: REST API guide (status codes)."""
    assert org.rest("GET", path).status_code == 404


def test_an_older_schema_can_be_had_by_its_id(org: OrgUnderTest) -> None:
    """An older schema is found by its id only. Source: Platform Event Schema by Schema ID page."""
    emulator = org.staged("a user must add a field to the event")
    emulator.define_event("Older__e", {"A__c": "Text"})
    before = emulator.schema_id("Older__e")
    after = emulator.evolve("Older__e", {"B__c": "Text"})
    newest = org.rest("GET", "sobjects/Older__e/eventSchema?payloadFormat=COMPACT").json()
    older = org.rest("GET", f"event/eventSchema/{before}?payloadFormat=COMPACT").json()
    assert (newest["uuid"], older["uuid"]) == (after, before)
    assert len(newest["fields"]) == len(older["fields"]) + 1


def test_change_events_have_their_schema_too(org: OrgUnderTest) -> None:
    """A change event's schema is found by GetTopic's id.

    Source: Change Data Capture guide, schemas of live orgs.
    """
    topic = org.client.get_topic(f"/data/{org.need('entity')}ChangeEvent")
    body = org.rest("GET", f"event/eventSchema/{topic.schema_id}?payloadFormat=COMPACT").json()
    assert body.pop("uuid") == topic.schema_id
    assert body == json.loads(org.client.get_schema(topic.schema_id).schema_json)


def test_an_unknown_field_is_refused(org: OrgUnderTest) -> None:
    """An event with an unknown field is refused and not published.

    Source: REST API guide (error codes).
    """
    answer = org.rest("POST", f"sobjects/{org.topic.rpartition('/')[2]}", {"No_Such__c": "x"})
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "INVALID_FIELD")


def test_publishing_over_rest_ends_with_its_allowance(org: OrgUnderTest) -> None:
    """Publishing beyond the allowance is refused with LIMIT_EXCEEDED. Source: Allocations page."""
    with org.set_up("its allowance would have to be used up", publish_allocation=1) as other:
        path = f"sobjects/{other.topic.rpartition('/')[2]}"
        answers = [other.rest("POST", path, {TEXT: "x"}) for _ in range(2)]
    assert answers[0].status_code == 201
    assert "LIMIT_EXCEEDED" in answers[1].text
