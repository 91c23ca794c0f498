"""Limits of the service over a real socket: requests, calls, streams, hourly events, tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

Talk = Callable[..., Any]


def _topic(bus: Emulator, events: int = 0) -> str:
    topic = bus.define_event("Order__e", {"Number__c": "Text"})
    bus.publish(topic, [{"Number__c": str(n)} for n in range(events)])
    return topic


@pytest.mark.parametrize("over", ["result", "status"])
def test_the_publish_allocation(talk: Talk, over: str) -> None:
    """Events beyond the hourly allocation are refused in their results or by status."""
    with Emulator(knobs=Knobs(publish_allocation=3, publish_over=over)) as bus:  # type: ignore[arg-type]
        topic = _topic(bus, 5)  # what the test publishes itself is not counted
        event = pb.ProducerEvent(schema_id=bus.schema_id(topic), payload=b"")

        async def scenario(client: Any) -> Any:
            await client.publish(topic, event, event)
            if over == "status":
                said = await client.refused(client.publish(topic, event, event))
                bus.clock.advance(hours=1)
                return said, await client.publish(topic, event)
            said = await client.publish(topic, event, event)
            bus.clock.advance(hours=1)
            return said, await client.publish(topic, event)

        said, later = talk(bus, scenario)
        if over == "status":
            assert said.status == "RESOURCE_EXHAUSTED"
            assert said.message.startswith("LIMIT_EXCEEDED")
        else:
            good, bad = said.results
            assert (bool(good.replay_id), bad.error.msg[:14]) == (True, "LIMIT_EXCEEDED")
        assert not later.results[0].HasField("error")


def test_a_stream_may_renew_its_token(talk: Talk) -> None:
    """auth_refresh replaces the token; an invalid one ends the stream."""
    with Emulator(knobs=Knobs(expiry_ends_streams=True, half_close_seconds=0.01)) as bus:
        topic = _topic(bus, 1)
        fresh = bus.connection("session")["extra"]["session_token"]

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic, 1)
            await stream.take(1)
            await stream.ask(0, auth_refresh=fresh)
            await stream.ask(1)
            bus.publish(topic, [{"Number__c": "x"}])
            await stream.take(1)
            await asyncio.to_thread(bus.revoke, dict(client.headers)["accesstoken"])
            await stream.ask(1)
            bus.publish(topic, [{"Number__c": "y"}])
            assert len(await stream.take(1)) == 1
            await stream.ask(1, auth_refresh="rubbish")
            return await client.refused(stream.read())

        said = talk(bus, scenario)
        assert (said.status, said.code) == ("UNAUTHENTICATED", "service.auth.refresh.invalid")


def test_statuses_can_be_set(talk: Talk) -> None:
    """A knob sets the status of an error code."""
    with Emulator(
        knobs=Knobs(statuses=(("topic.validation.empty", "FAILED_PRECONDITION"),))
    ) as bus:
        said = talk(bus, lambda client: client.refused(client.get_topic(" ")))
        assert (said.status, said.code) == ("FAILED_PRECONDITION", "topic.validation.empty")


def test_connections_may_grow_too_old(talk: Talk) -> None:
    """With the knob, a connection ends at its age, and a new one is served."""
    with Emulator(knobs=Knobs(max_connection_age_seconds=0.3)) as bus:
        topic = _topic(bus, 1)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic, 5)
            await stream.take(1)
            said = await client.refused(stream.read())
            await client.take_again(topic, 1)
            return said

        assert talk(bus, scenario).code == ""


def test_faults_by_rate(talk: Talk) -> None:
    """With a fault rate of 1 every call fails; the error is one that live orgs have sent."""
    with Emulator(knobs=Knobs(fault_rate=1.0)) as bus:
        topic = _topic(bus)

        async def scenario(client: Any) -> set[str]:
            return {(await client.refused(client.get_topic(topic))).status for _ in range(20)}

        assert talk(bus, scenario) == {"INTERNAL", "UNAVAILABLE"}
        assert bus.faults() == ()


def test_duplicates_by_rate(talk: Talk) -> None:
    """With the rate 1 each event is on the bus twice; the publisher gets the first id."""
    with Emulator(knobs=Knobs(duplicate_rate=1.0)) as bus:
        topic = _topic(bus)
        event = pb.ProducerEvent(id="a", schema_id=bus.schema_id(topic), payload=b"")

        async def scenario(client: Any) -> Any:
            results = (await client.publish(topic, event)).results
            return results, await (await client.subscribe(topic)).take(2)

        [result], (one, two) = talk(bus, scenario)
        assert one.event.id == two.event.id == "a"
        assert result.replay_id == one.replay_id < two.replay_id
