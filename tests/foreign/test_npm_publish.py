from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.foreign.test_npm_streams import number
from tests.harness.foreign_clients import ForeignError

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start

pytestmark = pytest.mark.full

NOW = 1_795_366_141_098


def payload(name: str, amount: float | None = None) -> dict[str, Any]:
    """An event in the client's form: nullable fields with their type names."""
    return {
        "CreatedDate": NOW,
        "CreatedById": "005000000000000AAA",
        "Number__c": {"string": name},
        "Amount__c": None if amount is None else {"double": amount},
    }


def test_publish(bus: Emulator, topic: str, npm: Start) -> None:
    """An event with the caller's key has the replay id of the bus."""
    client = npm()
    result = client.order("publish", topic=topic, payload=payload("A-1", 12.5), key="key-1")
    [event] = bus.events(topic)
    assert (result["replayId"], result["correlationKey"]) == (
        number(bytes.fromhex(event["replay_id"])),
        "key-1",
    )
    assert (event["id"], event["schema_id"]) == ("key-1", bus.schema_id(topic))
    assert (event["fields"]["Number__c"], event["fields"]["Amount__c"]) == ("A-1", 12.5)


def test_publish_in_batches(bus: Emulator, topic: str, npm: Start) -> None:
    """Two batches on a stream have a result per event, with keepalives between."""
    client = npm()
    names = [f"A-{n}" for n in range(7)]
    for batch in (names[:5], names[5:]):
        events = [{"id": f"key {name}", "payload": payload(name)} for name in batch]
        client.order("publishBatch", topic=topic, events=events)
    answers = client.wait("publishResponse", 2)
    results = [result for answer in answers for result in answer["data"]["results"]]
    on_the_bus = bus.events(topic)
    assert [result["correlationKey"] for result in results] == [f"key {name}" for name in names]
    assert [result["replayId"] for result in results] == [
        number(bytes.fromhex(event["replay_id"])) for event in on_the_bus
    ]
    assert [event["fields"]["Number__c"] for event in on_the_bus] == names
    client.wait("grpcKeepAlive")


def test_a_topic_that_takes_no_events(bus: Emulator, npm: Start) -> None:
    """Publishing change events is refused by both RPCs."""
    bus.define_entity("Lead", {"Company": "Text"})
    topic = "/data/LeadChangeEvent"
    client = npm()
    header: dict[str, Any] = {
        "entityName": "Lead",
        "recordIds": [],
        "changeType": "CREATE",
        "changeOrigin": "",
    }
    header |= {"transactionKey": "", "sequenceNumber": 1, "commitTimestamp": 1, "commitNumber": 1}
    header |= {"commitUser": "", "nulledFields": [], "diffFields": [], "changedFields": []}
    event = {"ChangeEventHeader": header, "Company": None}
    with pytest.raises(ForeignError, match=r"Failed to publish event for topic.* rpcId: "):
        client.order("publish", topic=topic, payload=event)
    client.order("publishBatch", topic=topic, events=[{"payload": event}])
    [error] = client.wait("publishError")
    assert error["code"].endswith("publish.topic.cannot.publish")


def test_what_one_publishes_the_other_is_delivered(topic: str, npm: Start) -> None:
    """Two Node clients communicate over the bus."""
    reader, writer = npm("oauth-jwt-bearer"), npm()
    reader.order("subscribeFromEarliest", topic=topic, count=1)
    result = writer.order("publish", topic=topic, payload=payload("A-1", 0.25))
    [event] = reader.wait("event")
    assert event["data"]["replayId"] == result["replayId"]
    assert event["data"]["payload"] == {
        "CreatedDate": NOW,
        "CreatedById": "005000000000000AAA",
        "Number__c": "A-1",
        "Amount__c": 0.25,
    }
