"""Keepalives during a fetch, and events beyond its bounds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
    BEYOND_BYTES,
    BoundedFetch,
    FetchResult,
)
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
from airflow_provider_sfevents.pubsub.streaming.event_time import EventTime, event_time_reader
from tests.unit.pubsub.streaming.made_up_bus import Bus, Waits, event_id, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def test_each_keepalive_is_told_behind_the_events_before_it() -> None:
    """A response without events is reported by its replay id, in order; one with events is not."""

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
        assert wait.waited == [(first, None), (second, 2), (third, 2)]

    asyncio.run(play())


def test_what_heard_raises_ends_the_fetch() -> None:
    """An error of the keepalive callback ends the fetch, and no stream stays open."""

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
    """A keepalive behind an event beyond the bound is not reported."""

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
        assert (small.numbers, small.waited) == ([1, 2], [])
        assert result.latest_replay_id == result.last_replay_id == bytes.fromhex(event_id(2))
        assert result.deliveries > result.events
        await large.cancel()

    asyncio.run(play())


def test_a_keepalive_in_the_rest_is_told() -> None:
    """A keepalive that comes after the bound but before the stream's end is reported."""

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
        assert wait.waited == [(kept, 1)]
        assert result.latest_replay_id == bytes.fromhex(kept)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("pending", "replay_id", "shown"),
    [(3, b"a", True), (0, b"a", False), (3, b"", False)],
    ids=["keepalive", "nothing was requested", "no replay id"],
)
def test_a_response_shows_that_nothing_is_pending(
    pending: int, replay_id: bytes, *, shown: bool
) -> None:
    """Only a keepalive that came although events were requested shows that none is pending."""
    empty = replace(delivery(range(0), b""), latest_replay_id=replay_id, pending=pending)
    assert empty.shows_nothing_pending is shown
    assert not replace(delivery(range(1, 2), b""), pending=9).shows_nothing_pending


@dataclass
class Delivers:
    """A subscription with one response, and more responses after the half-close."""

    first: Delivery
    later: list[Delivery] = field(default_factory=list)
    failure: None = None
    losses: int = 0

    def listening_since(self, now: float) -> float:
        return now

    async def ask_up_to(self, wanted: int) -> None:
        pass

    async def next(
        self, timeout_seconds: float, opening_seconds: float | None = None
    ) -> Delivery | None:
        return self.first

    async def half_close(self) -> None:
        pass

    async def rest(self) -> AsyncIterator[Delivery]:
        for delivery in self.later:
            yield delivery

    async def close(self) -> None:
        pass


def delivery(numbers: range, payload: bytes) -> Delivery:
    events = [
        pb2.ConsumerEvent(
            replay_id=bytes.fromhex(event_id(number)), event=pb2.ProducerEvent(payload=payload)
        )
        for number in numbers
    ]
    return Delivery(events=events, latest_replay_id=b"", pending=0, rpc_id="r-1", received_at=0)


def fetch_one(subscription: Delivers) -> FetchResult:
    """Fetch a batch of one event."""

    async def receive(_: Delivery) -> None:
        pass

    async def times_of(_: str) -> EventTime:
        return event_time_reader("")

    return asyncio.run(
        BoundedFetch(
            subscription,
            Bounds(max_events=1),
            receive,
            already=StagedProgress(),
            stopped=lambda: False,
            times_of=times_of,
            clock=Clock(),
        ).run()
    )


def test_events_beyond_the_batch_are_kept_until_memory_is_full() -> None:
    """Events that do not fit into memory are dropped from the end, so the kept ones have no gap."""
    large = b"x" * (BEYOND_BYTES // 2)
    result = fetch_one(Delivers(delivery(range(1, 5), large), [delivery(range(5, 7), b"x")]))
    kept = [one.hex() for part in result.beyond for one in part.replay_ids]
    assert (result.events, kept) == (1, [event_id(2), event_id(3)])
    assert (result.beyond_bound, result.deliveries) == (3, 6)


def test_events_beyond_the_batch_that_come_after_the_half_close_are_kept() -> None:
    """Surplus events of several responses are kept in order."""
    result = fetch_one(Delivers(delivery(range(1, 3), b"x"), [delivery(range(3, 5), b"x")]))
    kept = [one.hex() for part in result.beyond for one in part.replay_ids]
    assert (kept, result.beyond_bound) == ([event_id(2), event_id(3), event_id(4)], 0)
