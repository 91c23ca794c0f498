from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.foreign.conftest import python_config
from tests.harness.foreign_clients import ForeignClient, ForeignError, python_program

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start

pytestmark = pytest.mark.full

DRIVERS = ("pysf_client.py", "aiosf_client.py")


def publish(bus: Emulator, topic: str, first: int, count: int) -> list[str]:
    """Publish numbered events and return their replay ids in hex."""
    records = [{"Number__c": f"A-{n}", "Amount__c": n / 2} for n in range(first, first + count)]
    return [replay_id.hex() for replay_id in bus.publish(topic, records)]


def replay_ids(client: ForeignClient, count: int) -> list[str]:
    return [event["replay_id"] for event in client.wait("event", count)]


def test_from_earliest_and_on(bus: Emulator, topic: str, either: ForeignClient) -> None:
    """EARLIEST in each request delivers retained and later events once."""
    published = publish(bus, topic, 1, 4)
    either.order("subscribe", topic=topic, replay_type="EARLIEST", count=3)
    either.wait("event", 3)
    published += publish(bus, topic, 5, 2)
    assert replay_ids(either, 6) == published
    payloads = [event["payload"] for event in either.wait("event")]
    assert [(one["Number__c"], one["Amount__c"]) for one in payloads] == [
        (f"A-{n}", n / 2) for n in range(1, 7)
    ]
    assert bus.deliveries(topic) == 6


def test_from_latest(bus: Emulator, topic: str, either: ForeignClient) -> None:
    """LATEST delivers only events after the subscription."""
    publish(bus, topic, 1, 2)
    either.order("subscribe", topic=topic, replay_type="LATEST", count=5)
    bus.wait_open_streams(1)
    published = publish(bus, topic, 3, 3)
    assert replay_ids(either, 3) == published


def test_after_a_replay_id(bus: Emulator, topic: str, either: ForeignClient) -> None:
    """CUSTOM delivers the events strictly after the replay id."""
    published = publish(bus, topic, 1, 5)
    either.order("subscribe", topic=topic, replay_type="CUSTOM", count=3, replay_id=published[1])
    assert replay_ids(either, 3) == published[2:]


def test_keepalives_reach_the_callback(topic: str, either: ForeignClient) -> None:
    """Keepalives without events reach the callback."""
    either.order("subscribe", topic=topic, replay_type="LATEST", count=5)
    assert len(either.wait("keepalive")[0]["last"]) == 20


def test_topic_and_change_events(bus: Emulator, either: ForeignClient) -> None:
    """The `avro` package decodes a change event with header and compounds."""
    topic = "/data/ContactChangeEvent"
    bus.define_object("Contact")
    assert either.order("topic", topic=topic)["can_publish"] is False
    either.order("subscribe", topic=topic, replay_type="LATEST", count=1)
    bus.wait_open_streams(1)
    record = bus.create("Contact", {"LastName": "Silva", "MailingCity": "Porto"})
    payload = either.wait("event")[0]["payload"]
    assert payload["ChangeEventHeader"]["recordIds"] == [record]
    assert payload["Name"]["LastName"] == "Silva"
    assert payload["MailingAddress"]["City"] == "Porto"


def test_an_unknown_topic(either: ForeignClient) -> None:
    """An unknown topic's error reaches the caller."""
    either.order("subscribe", topic="/event/NotThere__e", replay_type="LATEST", count=1)
    [error] = either.wait("error")
    assert "Ensure the credentials and topic name are correct" in error["why"]


def test_pysfpubsub_publishes(bus: Emulator, topic: str, pysf: ForeignClient) -> None:
    """Published events are on the bus under the returned replay ids."""
    results = pysf.order("publish", topic=topic, payloads=[payload("A-1"), payload("A-2")])
    events = bus.events(topic)
    assert [result["replay_id"] for result in results] == [one["replay_id"] for one in events]
    assert [result["key"] for result in results] == [one["id"] for one in events]
    assert [one["fields"]["Number__c"] for one in events] == ["A-1", "A-2"]


def payload(name: str) -> dict[str, Any]:
    """An event in the client's form."""
    return {
        "CreatedDate": 1_795_366_141,
        "CreatedById": "005000000000000AAA",
        "Number__c": name,
        "Amount__c": 0.5,
    }


@pytest.mark.parametrize("driver", DRIVERS, ids=["pysfpubsub", "aiosfpubsub"])
def test_a_client_that_does_not_trust_the_certificate(
    bus: Emulator, start: Start, driver: str
) -> None:
    """Login and gRPC trust the bundle of `certifi` only."""
    client = start(python_program, driver, trusted=False)
    with pytest.raises(ForeignError, match="CERTIFICATE_VERIFY_FAILED"):
        client.order("auth", config=python_config(bus))


@pytest.mark.parametrize("driver", DRIVERS, ids=["pysfpubsub", "aiosfpubsub"])
def test_a_refused_login(bus: Emulator, start: Start, driver: str) -> None:
    """A fault without a session stops both clients."""
    client = start(python_program, driver)
    with pytest.raises(ForeignError, match=r"IndexError|AttributeError"):
        client.order("auth", config={**python_config(bus), "password": "wrong"})
