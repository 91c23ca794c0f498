"""GetTopic, GetSchema and Publish over a real socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}


def test_get_topic(talk: Talk) -> None:
    """A platform event can be published and subscribed to, and has its tenant and schema id."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)
        info = talk(bus, lambda client: client.get_topic(topic))
        assert (info.topic_name, info.can_publish, info.can_subscribe) == (topic, True, True)
        assert info.tenant_guid == f"core/prod/{bus.org.org_id}"
        assert info.schema_id == bus.schema_id(topic)
        assert info.rpc_id


def test_change_events_cannot_be_published(talk: Talk) -> None:
    """GetTopic states that, and Publish refuses."""
    with Emulator() as bus:
        topic = bus.define_entity("Account", {"Name": "Text"})

        async def scenario(client: Any) -> tuple[bool, Any]:
            event = pb.ProducerEvent(schema_id=bus.schema_id(topic), payload=b"")
            return (await client.get_topic(topic)).can_publish, await client.refused(
                client.publish(topic, event)
            )

        can_publish, refused = talk(bus, scenario)
        assert can_publish is False
        assert refused.status == "PERMISSION_DENIED"


@pytest.mark.parametrize("knob", ["empty", "first"])
def test_schema_of_a_channel(talk: Talk, knob: Any) -> None:
    """A channel has no schema, or by knob its first member's."""
    with Emulator(knobs=Knobs(channel_schema=knob)) as bus:
        bus.define_event("Order__e", ORDER)
        channel = bus.define_channel("/event/X__chn", ["Order__e"])
        info = talk(bus, lambda client: client.get_topic(channel))
        assert info.schema_id == ("" if knob == "empty" else bus.schema_id("Order__e"))
        assert info.can_publish is False


@pytest.mark.parametrize(
    ("name", "knob", "code", "status"),
    [
        ("/event/Nope__e", "PERMISSION_DENIED", "topic.meta.permission", "PERMISSION_DENIED"),
        ("/event/Nope__e", "NOT_FOUND", "topic.not.found", "NOT_FOUND"),
        (" ", "PERMISSION_DENIED", "topic.validation.empty", "INVALID_ARGUMENT"),
    ],
)
def test_topics_that_are_not_there(
    talk: Talk, name: str, knob: Any, code: str, status: str
) -> None:
    """An unknown topic is PERMISSION_DENIED as live, or NOT_FOUND as documented."""
    with Emulator(knobs=Knobs(unknown_topic=knob)) as bus:
        refused = talk(bus, lambda client: client.refused(client.get_topic(name)))
        assert (refused.code, refused.status) == (code, status)
        assert refused.trailers["type"] == "GetTopic"
        if code == "topic.meta.permission":
            assert f"org CORE/prod/{bus.org.org_id} and topic {name}." in refused.message


def test_get_schema(talk: Talk) -> None:
    """The JSON is the record with its keys in real order."""
    with Emulator() as bus:
        bus.define_event("Order__e", ORDER)
        info = talk(bus, lambda client: client.get_schema(bus.schema_id("Order__e")))
        assert list(json.loads(info.schema_json)) == ["type", "name", "namespace", "fields"]
        assert info.schema_id == bus.schema_id("Order__e")


@pytest.mark.parametrize(
    ("schema_id", "code", "status"),
    [
        ("", "schema.validation.failed", "INVALID_ARGUMENT"),
        ("nope", "schema.meta.permission", "NOT_FOUND"),
    ],
)
def test_schemas_that_are_not_there(talk: Talk, schema_id: str, code: str, status: str) -> None:
    """A blank schema id has its code; the knob decides on an unknown one."""
    with Emulator() as bus:
        refused = talk(bus, lambda client: client.refused(client.get_schema(schema_id)))
        assert (refused.code, refused.status) == (code, status)


def test_publish_answers_each_event_in_order(talk: Talk) -> None:
    """Results are in order; a too large event fails alone."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01)) as bus:
        topic = bus.define_event("Order__e", ORDER)
        schema_id = bus.schema_id(topic)
        [good] = [bytes.fromhex("0002") + b"5" + b"\x00"]

        async def scenario(client: Any) -> tuple[Any, list[Any]]:
            response = await client.publish(
                topic,
                pb.ProducerEvent(id="mine", schema_id=schema_id, payload=good),
                pb.ProducerEvent(id="large", schema_id=schema_id, payload=b"x" * (1024 * 1024 + 1)),
                pb.ProducerEvent(id="alien", schema_id="nope", payload=good),
                pb.ProducerEvent(schema_id=schema_id, payload=good),
            )
            return response, await (await client.subscribe(topic)).take(2)

        response, events = talk(bus, scenario)
        mine, large, alien, nameless = response.results
        assert (response.schema_id, bool(response.rpc_id)) == (schema_id, True)
        assert [mine.correlation_key, large.correlation_key, alien.correlation_key] == [
            "mine",
            "large",
            "alien",
        ]
        assert len(nameless.correlation_key) == 36
        assert [result.HasField("error") for result in response.results] == [
            False,
            True,
            True,
            False,
        ]
        assert (large.error.code, large.replay_id) == (pb.PUBLISH, b"")
        assert [event.replay_id for event in events] == [mine.replay_id, nameless.replay_id]
        assert [event.event.id for event in events] == ["mine", nameless.correlation_key]


@pytest.mark.parametrize(
    ("topic", "events", "code", "status"),
    [
        ("/event/Order__e", 0, "publish.event.count.invalid", "INVALID_ARGUMENT"),
        ("", 1, "publish.topic.validation.empty", "INVALID_ARGUMENT"),
        ("/event/Nope__e", 1, "topic.meta.permission", "PERMISSION_DENIED"),
    ],
)
def test_publish_requests_that_are_refused(
    talk: Talk, topic: str, events: int, code: str, status: str
) -> None:
    """A request without events, or without a topic, fails as a whole."""
    with Emulator() as bus:
        bus.define_event("Order__e", ORDER)
        event = pb.ProducerEvent(schema_id=bus.schema_id("Order__e"), payload=b"")
        refused = talk(bus, lambda client: client.refused(client.publish(topic, *[event] * events)))
        assert (refused.code, refused.status) == (code, status)


def test_publish_of_more_than_four_megabytes(talk: Talk) -> None:
    """The service's proxy refuses it with UNAVAILABLE and no trailers."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)
        event = pb.ProducerEvent(schema_id=bus.schema_id(topic), payload=b"x" * 900_000)
        refused = talk(bus, lambda client: client.refused(client.publish(topic, *[event] * 5)))
        assert (refused.status, refused.code) == ("UNAVAILABLE", "")
        assert bus.events(topic) == []
