"""REST around the bus: schemas, and publishing as a record."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tests.contract.orgs import TEXT

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


def test_rest_gives_the_schema_by_its_id(org: OrgUnderTest) -> None:
    """The record of GetSchema with its id beside it, as `uuid`. Source: Platform Event Schema by Schema ID page."""
    body = org.rest("GET", f"event/eventSchema/{org.schema_id}?payloadFormat=COMPACT").json()
    assert body.pop("uuid") == org.schema_id
    assert body == org.schema


def test_rest_gives_the_schema_by_the_events_name(org: OrgUnderTest) -> None:
    """The same. Source: Platform Event Schema by Event Name page."""
    name = org.topic.rpartition("/")[2]
    body = org.rest("GET", f"sobjects/{name}/eventSchema?payloadFormat=COMPACT").json()
    assert (body["uuid"], body["name"]) == (org.schema_id, name)


def test_a_schema_is_expanded_unless_asked_otherwise(org: OrgUnderTest) -> None:
    """A record of data and channel, as the Streaming API has events. Source: Platform Event Schema pages."""
    body = org.rest("GET", f"event/eventSchema/{org.schema_id}").json()
    data, channel = body["fields"]
    assert (data["name"], channel["name"]) == ("data", "channel")
    assert [one["name"] for one in data["type"]["fields"]] == ["schema", "payload", "event"]


def test_an_event_published_as_a_record_is_delivered(org: OrgUnderTest) -> None:
    """REST answers with the event's UUID, which subscribers see. Source: Platform Events guide, known clients."""
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
