"""The client against the emulator, over both transports."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from airflow_provider_sfevents.client import (
    Client,
    ClientClosedError,
    ReplayError,
    ReplayMarker,
    ReplayOption,
    ServerError,
    TransportTimeoutError,
)
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import ConfigurationError
from tests.integration.emulator.resting import Rest
from tests.integration.pubsub.emulated import TOPIC, come_true, publish, settings_of

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


async def test_messages_and_markers_over_the_pubsub_api() -> None:
    """Events come as messages in order; the next client continues after the last one received."""
    replay: dict[str, ReplayMarker] = {}
    with Emulator() as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        published = publish(bus, 5)
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS}
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            await client.subscribe(TOPIC)
            messages = [await client.receive() for _ in range(5)]
        assert [one["data"]["payload"]["Number__c"] for one in messages] == [0, 1, 2, 3, 4]
        assert [one["data"]["event"]["replayId"] for one in messages] == [
            replay_id.hex() for replay_id in published
        ]
        replay[TOPIC] = ReplayMarker("", published[2].hex())
        async with asyncio.timeout(60), Client(settings_of(bus), replay=replay) as client:
            await client.subscribe(TOPIC)
            assert (await client.receive())["data"]["payload"]["Number__c"] == 3
        assert replay[TOPIC].replay_id == published[3].hex()
        bus.check()


async def test_an_unknown_replay_id_is_refused_or_falls_back() -> None:
    """A refused replay id is a ReplayError of `subscribe`; with a fallback, all events come."""
    with Emulator() as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        publish(bus, 2)
        start: dict[str, Any] = {"replay": {TOPIC: ReplayMarker("", 55)}}
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            with pytest.raises(ReplayError, match="Streaming API"):
                await client.subscribe(TOPIC)
            assert client.subscriptions == set()
        fallback: dict[str, Any] = {**start, "replay_fallback": ReplayOption.ALL_EVENTS}
        async with asyncio.timeout(60), Client(settings_of(bus), **fallback) as client:
            await client.subscribe(TOPIC)
            assert (await client.receive())["data"]["payload"]["Number__c"] == 0
        bus.check()


async def test_buffered_messages_are_bounded_and_readable_after_close() -> None:
    """The buffer holds `max_pending_count` messages, which `close` leaves there."""
    with Emulator() as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        publish(bus, 9)
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "max_pending_count": 3}
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            await client.subscribe(TOPIC)
            await come_true(lambda: client.pending_count == 3)
        assert client.closed
        assert client.has_pending_messages
        numbers = [message["data"]["payload"]["Number__c"] async for message in client]
        assert numbers == [0, 1, 2]
        with pytest.raises(ClientClosedError):
            await client.receive()
        bus.check()


async def test_a_service_that_stays_away_ends_the_client() -> None:
    """After `connection_timeout` the buffered messages are read, then the timeout is raised."""
    with Emulator() as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        publish(bus, 1)
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "connection_timeout": 0.5}
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            await client.subscribe(TOPIC)
            await come_true(lambda: client.has_pending_messages)
            bus.away()
            bus.drop_connections()
            assert (await client.receive())["data"]["payload"]["Number__c"] == 0
            with pytest.raises(TransportTimeoutError, match="did not come back"):
                await client.receive()
            bus.back()


async def test_channels_come_and_go_and_events_are_published() -> None:
    """A second channel joins a running client, receives what it publishes, and leaves again."""
    with Emulator() as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        bus.define_event("Notice__e", {"Text__c": "Text"})
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "raw": True}
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            await client.subscribe(TOPIC)
            await client.subscribe("/event/Notice__e")
            assert client.subscriptions == {TOPIC, "/event/Notice__e"}
            event_id = await client.publish("/event/Notice__e", {"Text__c": "hello"})
            data = (await client.receive())["data"]
            assert (data["payload"]["Text__c"], data["event"]["EventUuid"]) == ("hello", event_id)
            assert isinstance(data["raw"], bytes)
            await client.unsubscribe("/event/Notice__e")
            await client.publish("/event/Notice__e", {"Text__c": "unread"})
            await client.publish(TOPIC, {"Number__c": 7.0})
            assert (await client.receive())["channel"] == TOPIC
        bus.check()


async def test_messages_and_markers_over_the_streaming_api() -> None:
    """Events come as messages in order; the next client continues after the last one received."""
    replay: dict[str, ReplayMarker] = {}
    with Emulator(knobs=Knobs(cometd_time_scale=0.01)) as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        publish(bus, 5)
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "raw": True}
        options = {**start, "transport": "streaming"}
        async with asyncio.timeout(60), Client(settings_of(bus), **options) as client:
            await client.subscribe(TOPIC)
            messages = [await client.receive() for _ in range(5)]
        assert [one["data"]["payload"]["Number__c"] for one in messages] == [0, 1, 2, 3, 4]
        assert b"replayId" in messages[0]["data"]["raw"]
        replay[TOPIC] = ReplayMarker("", messages[2]["data"]["event"]["replayId"])
        streaming: dict[str, Any] = {"replay": replay, "transport": "streaming"}
        async with asyncio.timeout(60), Client(settings_of(bus), **streaming) as client:
            await client.subscribe(TOPIC)
            assert (await client.receive())["data"]["payload"]["Number__c"] == 3
        assert replay[TOPIC].replay_id == messages[3]["data"]["event"]["replayId"]
        bus.check()


async def test_generic_events_are_published_and_received() -> None:
    """Text is pushed to a generic channel, and comes with the program's own JSON functions."""
    written: list[Any] = []

    def dumps(value: Any) -> str:
        written.append(value)
        return json.dumps(value)

    with Emulator(knobs=Knobs(cometd_time_scale=0.01)) as bus:
        assert Rest(bus).ask("POST", "/sobjects/StreamingChannel", {"Name": "/u/Notices"}).body
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "json_dumps": dumps}
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            await client.subscribe("/u/Notices")
            assert await client.publish("/u/Notices", "Hi") == ""
            assert (await client.receive())["data"]["payload"] == "Hi"
            with pytest.raises(ServerError, match="/u/Nothing does not exist"):
                await client.publish("/u/Nothing", "Hi")
            with pytest.raises(ConfigurationError, match="takes no text"):
                await client.publish(TOPIC, "Hi")
        assert written[0]["channel"] == "/meta/handshake"
        bus.check()


async def test_both_transports_give_the_same_payload() -> None:
    """An event has the same channel, schema, event id and fields over both transports."""
    with Emulator(knobs=Knobs(cometd_time_scale=0.01)) as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        publish(bus, 1)
        found = []
        for transport in ("pubsub", "streaming"):
            start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "transport": transport}
            async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
                await client.subscribe(TOPIC)
                message = await client.receive()
            del message["data"]["event"]["replayId"]
            found.append(message)
        assert found[0] == found[1]
        bus.check()


async def test_the_streaming_api_refuses_an_id_of_the_pubsub_api() -> None:
    """A marker of the other transport is a ReplayError; with a fallback, all events come."""
    with Emulator(knobs=Knobs(cometd_time_scale=0.01)) as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        [replay_id] = publish(bus, 1)
        start: dict[str, Any] = {"replay": {TOPIC: ReplayMarker("", replay_id.hex())}}
        start["transport"] = "streaming"
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            with pytest.raises(ReplayError, match="Pub/Sub API"):
                await client.subscribe(TOPIC)
        fallback: dict[str, Any] = {**start, "replay_fallback": ReplayOption.ALL_EVENTS}
        async with asyncio.timeout(60), Client(settings_of(bus), **fallback) as client:
            await client.subscribe(TOPIC)
            assert (await client.receive())["data"]["payload"]["Number__c"] == 0
        bus.check()


async def test_a_streaming_api_that_stays_away_ends_the_client() -> None:
    """After `connection_timeout` the buffered messages are read, then the timeout is raised."""
    with Emulator(knobs=Knobs(cometd_time_scale=0.01)) as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        publish(bus, 1)
        start: dict[str, Any] = {"replay": ReplayOption.ALL_EVENTS, "connection_timeout": 0.5}
        start["transport"] = "streaming"
        async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
            await client.subscribe(TOPIC)
            await come_true(lambda: client.has_pending_messages)
            bus.stop()
            assert (await client.receive())["data"]["payload"]["Number__c"] == 0
            with pytest.raises(TransportTimeoutError, match="did not come back"):
                await client.receive()
