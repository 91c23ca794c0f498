from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start
    from tests.harness.foreign_clients import ForeignClient

pytestmark = pytest.mark.full


def number(replay_id: bytes) -> int:
    """Replay id in the client's form: the number in the first eight bytes."""
    return int.from_bytes(replay_id[:8], "big")


def publish(bus: Emulator, topic: str, first: int, count: int) -> list[int]:
    """Publish numbered events and return the client's form of their replay ids."""
    records = [{"Number__c": f"A-{n}", "Amount__c": n / 2} for n in range(first, first + count)]
    return [number(replay_id) for replay_id in bus.publish(topic, records)]


def replay_ids(client: ForeignClient, count: int) -> list[int]:
    return [event["data"]["replayId"] for event in client.wait("event", count)]


def test_bounded_from_earliest(bus: Emulator, topic: str, npm: Start) -> None:
    """A bounded subscription delivers exactly its number, then more on the same stream."""
    published = publish(bus, topic, 1, 8)
    client = npm()
    client.order("subscribeFromEarliest", topic=topic, count=3)
    client.wait("lastEvent")
    assert replay_ids(client, 3) == published[:3]
    client.order("requestMore", topic=topic, count=4)
    client.wait("lastEvent", 2)
    assert replay_ids(client, 7) == published[:7]
    assert bus.deliveries(topic) == 7


@pytest.mark.parametrize(("order", "skipped"), [("subscribe", 3), ("subscribeFromEarliest", 0)])
def test_endless(bus: Emulator, topic: str, npm: Start, order: str, skipped: int) -> None:
    """An endless subscription passes the client's hundred, in order and once."""
    published = publish(bus, topic, 0, 3)
    client = npm()
    client.order(order, topic=topic)
    bus.wait_open_streams(1)
    # The client may reorder responses while it fetches their schema, so it fetches it first.
    client.wait("event", 3 - skipped)
    published += publish(bus, topic, 3, 130)
    wanted = published[skipped:]
    assert replay_ids(client, len(wanted)) == wanted
    payloads = [event["data"]["payload"] for event in client.wait("event")]
    assert [one["Number__c"] for one in payloads] == [f"A-{n}" for n in range(skipped, 133)]
    assert bus.deliveries(topic) == len(wanted)


def test_after_a_replay_id(bus: Emulator, topic: str, npm: Start) -> None:
    """The client's eight bytes are a valid start, strictly after the event."""
    published = publish(bus, topic, 1, 5)
    client = npm()
    client.order("subscribeFromReplayId", topic=topic, count=3, replayId=published[1])
    client.wait("lastEvent")
    assert replay_ids(client, 3) == published[2:]


def test_an_endless_subscription_after_a_replay_id(bus: Emulator, topic: str, npm: Start) -> None:
    """An endless subscription also delivers later events."""
    published = publish(bus, topic, 1, 2)
    client = npm()
    client.order("subscribeFromReplayId", topic=topic, replayId=published[0])
    client.wait("event")
    published += publish(bus, topic, 3, 2)
    assert replay_ids(client, 3) == published[1:]


def test_an_unknown_replay_id(topic: str, npm: Start) -> None:
    """An unknown replay id has the code that the client's users expect."""
    client = npm()
    client.order("subscribeFromReplayId", topic=topic, count=1, replayId=4711)
    [error] = client.wait("error")
    assert error["status"] == 3
    assert error["code"].endswith("subscription.fetch.replayid.corrupted")


def test_an_unknown_topic(npm: Start) -> None:
    """An unknown topic is refused with a code that the client's own tests accept."""
    client = npm()
    client.order("subscribe", topic="/event/NotThere__e", count=1)
    [error] = client.wait("error")
    assert error["status"] == 7
    assert error["code"].endswith("topic.meta.permission")


def test_keepalives_reach_the_callback(topic: str, npm: Start) -> None:
    """Keepalives reach the callback with a readable replay id."""
    client = npm()
    client.order("subscribe", topic=topic, count=1)
    first, second = client.wait("grpcKeepAlive", 2)[:2]
    assert first["last"] is not None
    assert first["last"] <= second["last"]


def test_a_stream_that_breaks_off(bus: Emulator, topic: str, npm: Start) -> None:
    """A broken stream is reported with status and code, and resumes after its last event."""
    client = npm()
    event = {"CreatedDate": 0, "CreatedById": "005", "Number__c": None, "Amount__c": None}
    result = client.order("publish", topic=topic, payload=event)  # from here on it has the schema
    published = [result["replayId"], *publish(bus, topic, 1, 3)]
    bus.fail_next("Subscribe", error_code="service.unavailable", after=2)
    client.order("subscribeFromEarliest", topic=topic, count=4)
    [error] = client.wait("error")
    assert (error["status"], error["last"]) == (13, published[1])
    assert error["code"].endswith("service.unavailable")
    client.wait("end")
    client.order("subscribeFromReplayId", topic=topic, count=2, replayId=error["last"])
    client.wait("lastEvent")
    assert replay_ids(client, 4) == published


def test_several_schemas_on_a_channel(bus: Emulator, topic: str, npm: Start) -> None:
    """The client decodes each event of a channel by its own schema."""
    name, other = topic.rpartition("/")[2], bus.define_event("Other__e", {"Note__c": "Text"})
    channel = bus.define_channel("/event/Both__chn", [name, "Other__e"])
    publish(bus, topic, 1, 1)
    bus.publish(other, [{"Note__c": "n"}])
    bus.evolve(name, {"Later__c": "Boolean"})
    bus.publish(topic, [{"Number__c": "A-2", "Later__c": True}])
    client = npm()
    client.order("subscribeFromEarliest", topic=channel, count=3)
    client.wait("lastEvent")
    first, second, third = (event["data"]["payload"] for event in client.wait("event"))
    assert (first["Number__c"], "Later__c" in first) == ("A-1", False)
    assert second["Note__c"] == "n"
    assert (third["Number__c"], third["Later__c"]) == ("A-2", True)


def test_change_events_are_read_with_their_bitmaps(bus: Emulator, npm: Start) -> None:
    """The client's own reading of bitmaps finds the changed fields."""
    bus.define_object("Account")
    client = npm()
    client.order("subscribe", topic="/data/AccountChangeEvent", count=2)
    bus.wait_open_streams(1)
    record = bus.create("Account", {"Name": "Nord", "BillingCity": "Porto", "Phone": "1"})
    bus.update(record, {"BillingCity": "Braga", "Phone": None, "NumberOfEmployees": 7})
    client.wait("lastEvent")
    created, updated = (event["data"]["payload"] for event in client.wait("event"))
    assert header(created) == ("CREATE", [record], [], [])
    assert (created["Name"], created["BillingAddress"]["City"]) == ("Nord", "Porto")
    changed = ["Phone", "NumberOfEmployees", "LastModifiedDate", "BillingAddress.City"]
    assert header(updated) == ("UPDATE", [record], changed, ["Phone"])
    assert (updated["NumberOfEmployees"], updated["BillingAddress"]["City"]) == (7, "Braga")


def header(payload: dict[str, Any]) -> tuple[str, list[str], list[str], list[str]]:
    """Type, ids, changed and nulled fields."""
    said = payload["ChangeEventHeader"]
    return (said["changeType"], said["recordIds"], said["changedFields"], said["nulledFields"])
