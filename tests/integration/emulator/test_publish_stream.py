"""PublishStream over a real socket, as in the docs, the .proto and Salesforce's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.integration.emulator.event_calls import EventCall

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}


class Publishing(EventCall):
    """A PublishStream call on a topic."""

    def __init__(self, client: Any, bus: Emulator, topic: str) -> None:
        super().__init__(client.stub.PublishStream(metadata=client.headers))
        self.token = dict(client.headers)["accesstoken"]
        self._bus = bus
        self._topic = topic

    def event(self, number: str = "1", event_id: str = "") -> pb.ProducerEvent:
        schema_id = self._bus.schema_id(self._topic)
        codec = codec_for(self._bus.org.bus.schema(schema_id) or "")
        values = {"CreatedDate": 1_750_000_000, "CreatedById": self._bus.org.user_id}
        payload = codec.encode({**values, "Number__c": number})
        return pb.ProducerEvent(id=event_id, schema_id=schema_id, payload=payload)

    async def send(self, *events: pb.ProducerEvent, **fields: Any) -> None:
        await self.call.write(
            pb.PublishRequest(**{"topic_name": self._topic, "events": events, **fields})
        )


def _publishing(
    talk: Talk, bus: Emulator, scenario: Callable[[Publishing], Any], **event: Any
) -> Any:
    """Run a scenario of a client with an open stream, and return its refusal."""
    topic = bus.define_event("Order__e", ORDER, **event)

    async def go(client: Any) -> Any:
        stream = Publishing(client, bus, topic)
        return await scenario(stream)

    return talk(bus, go)


def test_a_token_is_renewed(talk: Talk) -> None:
    """auth_refresh replaces the token, with or without events."""
    with Emulator(knobs=Knobs(expiry_ends_streams=True)) as bus:

        async def scenario(stream: Publishing) -> Any:
            await stream.send(stream.event())
            await stream.read()
            fresh = bus.connection("session")["extra"]["session_token"]
            await stream.send(auth_refresh=fresh, events=[])
            await stream.send(stream.event())
            assert len((await stream.read()).results) == 1
            bus.revoke(stream.token)
            await stream.send(stream.event())
            assert len((await stream.read()).results) == 1
            await stream.send(stream.event(), auth_refresh="rubbish")
            with pytest.raises(aio.AioRpcError) as error:
                await stream.read()
            return dict(error.value.trailing_metadata())["error-code"]

        code = _publishing(talk, bus, scenario)
        assert code.endswith("service.auth.refresh.invalid")
        assert len(bus.events("/event/Order__e")) == 3


def test_faults_can_be_ordered(talk: Talk) -> None:
    """Faults occur after published events or a time, also a normal end."""
    with Emulator() as bus:
        bus.fail_next("PublishStream", error_code="service.unavailable", after=2)
        bus.fail_next("PublishStream", status="OK", after_seconds=0.1)
        topic = bus.define_event("Order__e", ORDER)

        async def scenario(client: Any) -> list[str]:
            said = []
            for _ in range(2):
                stream = Publishing(client, bus, topic)
                await stream.send(stream.event(), stream.event())
                assert len((await stream.read()).results) == 2
                said.append((await stream.call.code()).name)
            return said

        assert talk(bus, scenario) == ["INTERNAL", "OK"]
        assert bus.faults() == ()


@pytest.mark.parametrize(
    ("befalls", "status"),
    [
        (lambda bus: bus.drop_connections("end"), "OK"),
        (lambda bus: bus.expire_tokens(in_stream=True), "UNAUTHENTICATED"),
        (lambda bus: bus.drop_connections("reset"), "UNAVAILABLE"),
    ],
    ids=["polite end", "token", "reset"],
)
def test_what_befalls_streams_befalls_this_one(
    talk: Talk, befalls: Callable[[Emulator], None], status: str
) -> None:
    """An open PublishStream ends as other streams do."""
    with Emulator() as bus:

        async def scenario(stream: Publishing) -> str:
            await stream.send(stream.event())
            await stream.read()
            await asyncio.to_thread(befalls, bus)
            return str((await stream.call.code()).name)

        assert _publishing(talk, bus, scenario) == status


@pytest.mark.parametrize("how", ["", "reset"])
def test_an_answer_can_be_lost(talk: Talk, how: str) -> None:
    """A late fault publishes the events and loses the answer."""
    with Emulator() as bus:
        bus.fail_next("PublishStream", after=1, late=True, how=how)
        bus.fail_next("Publish", late=True, how=how)
        topic = bus.define_event("Order__e", ORDER)

        async def on_a_stream(client: Any) -> Any:
            stream = Publishing(client, bus, topic)
            await stream.send(stream.event("1"))
            await stream.read()
            await stream.send(stream.event("2"))
            return await client.refused(stream.read())

        async def in_a_call(client: Any) -> Any:
            event = Publishing(client, bus, topic).event("3")
            return await client.refused(client.publish(topic, event))

        # Each on a connection of its own: gRPC may offer a dead one once more.
        for scenario in (on_a_stream, in_a_call):
            one = talk(bus, scenario)
            assert (one.status, one.code) == ("UNAVAILABLE", "")
        assert [one["fields"]["Number__c"] for one in bus.events(topic)] == ["1", "2", "3"]
        assert bus.faults() == ()


def test_schemas_may_change_while_a_stream_is_open(talk: Talk) -> None:
    """A response names the newest schema; the knob refuses older ones."""
    with Emulator(knobs=Knobs(old_schema_publish="refuse")) as bus:

        async def scenario(stream: Publishing) -> list[Any]:
            old = stream.event()
            await stream.send(old)
            answers = [await stream.read()]
            bus.evolve("Order__e", {"Note__c": "Text"})
            await stream.send(old)
            return [*answers, await stream.read()]

        before, after = _publishing(talk, bus, scenario)
        assert before.schema_id != after.schema_id == bus.schema_id("Order__e")
        assert "newest" in after.results[0].error.msg


def test_the_server_may_stamp_events(talk: Talk) -> None:
    """With the knob, CreatedDate and CreatedById are set by the server, if an event has them."""
    with Emulator(knobs=Knobs(stamp_created=True)) as bus:
        bus.org.bus.add_schema("plain", '{"type":"record","name":"Plain","fields":[]}')

        async def scenario(stream: Publishing) -> None:
            rubbish = stream.event()
            rubbish.payload = b"\xff"
            plain = stream.event()
            plain.schema_id, plain.payload = "plain", b""
            await stream.send(stream.event("7"), rubbish, plain)
            await stream.read()

        _publishing(talk, bus, scenario)
        good, bad, other = bus.events("/event/Order__e")
        assert good["fields"]["Number__c"] == "7"
        assert not good["fields"]["CreatedDate"].startswith("1970")  # what the client said
        assert good["fields"]["CreatedById"] == bus.org.user_id
        assert (bad["bytes"], other["fields"]) == (1, {})
