"""What a fetch tells of keepalives."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.pubsub.made_up_bus import Bus, Waits, event_id, settle


def test_each_keepalive_is_told_behind_the_events_before_it() -> None:
    """A response without events is told by its replay id, in its turn; one with events is not."""

    async def play() -> None:
        bus = Bus()
        waits = Waits(bus)
        wait = waits.begin("earliest", 3)
        await settle()
        first = bus.keepalive()
        await settle()
        bus.publish(2)
        second, third = bus.keepalive(), bus.keepalive()
        await settle()
        bus.publish(1)
        await wait.task
        assert wait.heard == [(first, None), (second, 2), (third, 2)]

    asyncio.run(play())


def test_what_heard_raises_ends_the_fetch() -> None:
    """Who cannot keep a keepalive may end the wait with it; nothing stays open."""

    async def play() -> None:
        bus = Bus()
        wait = Waits(bus).begin("earliest", 3)
        wait.hear = refuse  # type: ignore[method-assign]
        await settle()
        bus.keepalive()
        with pytest.raises(OSError, match="disk"):
            await wait.task
        assert bus.running == []

    async def refuse(name: str) -> None:
        raise OSError("the disk is full")

    asyncio.run(play())


def test_what_lies_behind_a_surplus_is_not_told() -> None:
    """An event beyond the bound was left out: neither it nor a keepalive behind it names a place this wait has come to."""

    async def play() -> None:
        bus = Bus(piece=2)
        waits = Waits(bus)
        small, large = waits.begin("earliest", 2, busy=True), waits.begin("earliest", 4)
        await settle()
        bus.publish(3)  # in two responses: the small one has not left before it is given both
        bus.keepalive()
        await settle()
        small.gate.set()
        result = await small.task
        assert (small.numbers, small.heard) == ([1, 2], [])
        assert result.latest_replay_id == result.last_replay_id == bytes.fromhex(event_id(2))
        assert result.deliveries > result.events
        await large.cancel()

    asyncio.run(play())


def test_a_keepalive_in_the_rest_is_told() -> None:
    """What came before the wait could end is told as well: it names the place the wait leaves."""

    async def play() -> None:
        bus = Bus()
        wait = Waits(bus).begin("earliest", 9, busy=True)
        await settle()
        bus.publish(1)
        kept = bus.keepalive()
        wait.stop.set()
        await settle()
        wait.gate.set()
        result = await wait.task
        assert wait.heard == [(kept, 1)]
        assert result.latest_replay_id == bytes.fromhex(kept)

    asyncio.run(play())
