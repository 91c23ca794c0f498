"""Promises of `aiosfstream` on replay that the client keeps, over both transports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.client import (
    ReplayError,
    ReplayMarker,
    ReplayMarkerStoragePolicy,
    ReplayOption,
)
from tests.integration.client.numbered import is_subscribed, number, numbers, publish, subscribed
from tests.integration.pubsub.emulated import come_true
from tests.unit.client.own_storage import Coroutines

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.client.conftest import Connect

pytestmark = pytest.mark.anyio

ALL = ReplayOption.ALL_EVENTS


def replay_ids(transport: str, published: list[bytes]) -> list[int | str]:
    """Replay ids as the messages of a transport have them."""
    if transport == "pubsub":
        return [one.hex() for one in published]
    return [int.from_bytes(one[:8], "big") for one in published]


@pytest.mark.parametrize(
    ("replay", "expected"), [({}, [2]), ({"replay": -1}, [2]), ({"replay": -2}, [1, 2])]
)
async def test_replay_of_new_events_by_default_and_of_all_events(
    bus: Emulator, topic: str, connect: Connect, replay: dict[str, Any], expected: list[int]
) -> None:
    """A subscription brings new events, or all of them; both are also numbers."""
    publish(bus, topic, 1)
    async with connect(**replay) as client:
        await subscribed(client, bus, topic)
        publish(bus, topic, 2)
        assert await numbers(client, len(expected)) == expected
        assert not client.has_pending_messages


@pytest.mark.parametrize("storage", [dict, Coroutines])
async def test_replay_from_a_storage_continues_after_the_last_message_received(
    bus: Emulator, topic: str, connect: Connect, transport: str, storage: type
) -> None:
    """New events come at first; the next client continues after the last one that was received."""
    replay = storage()
    kept: dict[str, ReplayMarker] = replay if isinstance(replay, dict) else replay.kept
    publish(bus, topic, 0)
    async with connect(replay=replay) as client:
        await subscribed(client, bus, topic)
        ids = replay_ids(transport, publish(bus, topic, 1, 2, 3))
        assert await numbers(client, 2) == [1, 2]
        assert kept[topic].replay_id == ids[1]
    async with connect(replay=replay) as client:
        await client.subscribe(topic)
        assert await numbers(client, 1) == [3]
    assert kept[topic].replay_id == ids[2]


async def test_a_marker_is_stored_by_hand(bus: Emulator, topic: str, connect: Connect) -> None:
    """With the policy MANUAL a message without a stored marker comes again."""
    replay: dict[str, ReplayMarker] = {}
    manual: dict[str, Any] = {
        "replay": replay,
        "replay_storage_policy": ReplayMarkerStoragePolicy.MANUAL,
    }
    publish(bus, topic, 1, 2)
    async with connect(replay=ALL) as client:
        await client.subscribe(topic)
        replay[topic] = ReplayMarker("", (await client.receive())["data"]["event"]["replayId"])
    received = []
    for _ in range(2):
        async with asyncio.timeout(60), connect(**manual) as client:
            await client.subscribe(topic)
            received.append(await client.receive())
    assert [number(message) for message in received] == [2, 2]
    publish(bus, topic, 3)
    async with connect(**manual) as client:
        async with client.replay_storage(received[0]):
            pass
        await client.subscribe(topic)
        assert await numbers(client, 1) == [3]


async def test_deleting_a_marker_and_subscribing_again(
    bus: Emulator, topic: str, connect: Connect
) -> None:
    """A channel without a marker starts with new events, also on a client that is running."""
    replay: dict[str, ReplayMarker] = {}
    async with connect(replay=replay) as client:
        await subscribed(client, bus, topic)
        publish(bus, topic, 1)
        assert await numbers(client, 1) == [1]
        await client.unsubscribe(topic)
        await come_true(lambda: not is_subscribed(bus, topic))
        publish(bus, topic, 2)
        del replay[topic]
        await subscribed(client, bus, topic)
        publish(bus, topic, 3)
        assert await numbers(client, 1) == [3]


async def test_replay_fallback(bus: Emulator, topic: str, connect: Connect, transport: str) -> None:
    """A refused replay id is a ReplayError of `subscribe`; with a fallback, all events come.

    An id of the other transport is refused too.
    """
    [published] = publish(bus, topic, 1)
    [foreign] = replay_ids("streaming" if transport == "pubsub" else "pubsub", [published])
    unknown = "ff" * 10 if transport == "pubsub" else 55
    for replay_id in (foreign, unknown):
        start = {"replay": {topic: ReplayMarker("", replay_id)}}
        async with connect(**start) as client:
            with pytest.raises(ReplayError):
                await client.subscribe(topic)
            assert client.subscriptions == set()
        async with connect(**start, replay_fallback=ALL) as client:
            await client.subscribe(topic)
            assert await numbers(client, 1) == [1]


async def test_a_refusal_after_a_lost_connection_is_followed_by_the_fallback(
    bus: Emulator, topic: str, connect: Connect
) -> None:
    """The org moves while messages come: its old replay ids are refused from then on."""
    publish(bus, topic, 1)
    async with connect(replay=ALL, replay_fallback=ALL) as client:
        await client.subscribe(topic)
        assert await numbers(client, 1) == [1]
        bus.reset_replay_ids(old_ids="refused")
        bus.drop_connections()
        bus.fail_next("cometd", status="NOT_FOUND")
        publish(bus, topic, 2)
        received = await numbers(client, 1)
        assert received in ([1], [2])
        assert received == [2] or await numbers(client, 1) == [2]


class Slow(Coroutines):
    """A storage that does not store the first marker that it is given."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    async def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> None:  # type: ignore[explicit-override]
        how, self.how = self.how, ""
        if how == "refuses":
            raise OSError(28, "No space left on device")
        if how == "waits":
            await asyncio.Event().wait()
        await super().set_replay_marker(subscription, replay_marker)


@pytest.mark.parametrize("how", ["refuses", "waits"])
async def test_a_message_whose_marker_was_not_stored_comes_again(
    bus: Emulator, topic: str, connect: Connect, how: str
) -> None:
    """A storage that fails, or a `receive` that is cancelled meanwhile, loses no message."""
    publish(bus, topic, 0, 1)
    storage = Slow(how)
    storage.kept[topic] = ReplayMarker("", ALL)
    async with connect(replay=storage) as client:
        await client.subscribe(topic)
        await come_true(lambda: client.has_pending_messages)
        with pytest.raises((OSError, TimeoutError)):
            await asyncio.wait_for(client.receive(), 0.2)
        assert await numbers(client, 2) == [0, 1]
