"""Subscription over scripted streams: silence, interrupts, and openings that take too long."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.reconnect import MAX_TRIES
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import StreamEndedError
from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.exceptions import SfEventsError


@dataclass
class Time:
    """A clock that moves when a call waits."""

    now: float = 1000.0

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, chance=lambda: 0.0)


class SaysNothing:
    """A stream that delivers only `says`."""

    def __init__(self, time: Time, says: list[Delivery | SfEventsError]) -> None:
        self._time = time
        self._says = says
        self.start: ReplayPoint | None = None
        self.closed = False

    async def ask(self, events: int, start: ReplayPoint) -> None:
        self.start = self.start or start

    async def read(self, timeout_seconds: float) -> Delivery | None:
        if not self._says:
            self._time.now += timeout_seconds
            return None
        said = self._says.pop(0)
        if isinstance(said, Delivery):
            return said
        raise said

    def wake(self) -> None:
        """Ignored."""

    async def half_close(self) -> None:
        """Ignored."""

    async def close(self) -> None:
        self.closed = True


@dataclass
class Streams:
    """Stream source with scripted streams; each records its start."""

    time: Time
    says: list[list[Delivery | SfEventsError]] = field(default_factory=list)
    opened: list[SaysNothing] = field(default_factory=list)
    stuck: bool = False
    doing: str = "Subscribing to /event/Order__e at pubsub.example:7443"

    async def reach(self) -> None:
        """The service is always reachable."""

    async def renew(self, why: SfEventsError) -> None:
        raise AssertionError("no session was refused")

    async def open(self) -> SaysNothing:
        if self.stuck:
            await asyncio.Event().wait()
        stream = SaysNothing(self.time, self.says.pop(0) if self.says else [])
        self.opened.append(stream)
        return stream


def keepalive(replay_id: bytes) -> Delivery:
    return Delivery(events=(), latest_replay_id=replay_id, pending=100, rpc_id="r-1", received_at=0)


def run(scene: Callable[[Streams, Any], Awaitable[None]], start: ReplayPoint = EARLIEST) -> Streams:
    """Play a scene with the streams and a maker of subscriptions on them."""
    streams = Streams(Time())

    def subscription(interrupt: asyncio.Future[Any] | None = None) -> Subscription:
        clock = streams.time.clock
        return Subscription(streams, start, clock, interrupt, timeouts=Timeouts())

    async def play() -> None:
        await scene(streams, subscription)

    asyncio.run(play())
    return streams


def test_a_stream_silent_for_300_seconds_is_dead() -> None:
    """A stream silent for 300 s is replaced by one from the last replay id."""

    async def scene(streams: Streams, subscription: Any) -> None:
        streams.says = [[keepalive(b"\xab")]]
        one = subscription()
        await one.ask_up_to(1)
        for _ in range(2):
            await one.next(1.0)  # opens; hears the keepalive
        began = streams.time.now
        await one.next(299.0)
        assert one.losses == 0
        await one.next(3600.0)  # an endless listener is not kept from noticing
        assert (one.losses, streams.time.now - began) == (1, 300.0)
        assert "Order__e at pubsub.example:7443: the stream has been silent for 300 s" in str(
            one.failure
        )
        assert "rpc id r-1" in str(one.failure)
        await one.next(1.0)

    streams = run(scene)
    assert [stream.start for stream in streams.opened] == [EARLIEST, ReplayPoint("ab")]
    assert streams.opened[0].closed


def test_lasting_silence_is_given_up() -> None:
    """A service that accepts streams and never delivers is a retryable error in the end."""

    async def scene(streams: Streams, subscription: Any) -> None:
        one = subscription()
        for _ in range(2 * MAX_TRIES - 1):
            await one.next(3600.0)  # opens, and is lost again
        with pytest.raises(TransportError, match="silent for 300 s"):
            await one.next(3600.0)

    assert len(run(scene).opened) == MAX_TRIES


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_opening_ends_with_its_time_or_the_interrupt(interrupted: bool) -> None:
    """A hanging connection ends with a failure at its time limit, without one at the interrupt."""

    async def scene(streams: Streams, subscription: Any) -> None:
        streams.stuck = True
        interrupt = asyncio.get_running_loop().create_future()
        one = subscription(interrupt)
        if interrupted:
            asyncio.get_running_loop().call_soon(interrupt.set_result, None)
        async with asyncio.timeout(100):
            assert await one.next(0.0, opening_seconds=60 if interrupted else 0.01) is None
        said = "" if interrupted else "pubsub.example:7443: no stream could be opened within 0 s"
        assert said in str(one.failure)
        assert (one.failure is None) is interrupted

    assert run(scene).opened == []


def test_after_an_interrupt_nothing_is_opened() -> None:
    """After an interrupt `next` returns None, opens nothing, and lets other tasks run."""

    async def scene(streams: Streams, subscription: Any) -> None:
        interrupt = asyncio.get_running_loop().create_future()
        interrupt.set_result(None)
        one = subscription(interrupt)
        others: list[str] = []
        asyncio.get_running_loop().call_soon(others.append, "ran")
        assert await one.next(60) is None
        assert others == ["ran"]

    assert run(scene).opened == []


def test_an_interrupt_of_another_loop_is_refused() -> None:
    """An interrupt of another event loop is refused at once."""
    loop = asyncio.new_event_loop()
    foreign = loop.create_future()
    loop.close()

    async def scene(streams: Streams, subscription: Any) -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            subscription(foreign)

    run(scene)


def test_an_interrupt_that_failed_says_so() -> None:
    """The error of a failed interrupt is raised, because the interrupt will never be set."""

    async def scene(streams: Streams, subscription: Any) -> None:
        interrupt = asyncio.get_running_loop().create_future()
        interrupt.set_exception(ValueError("is bound to a different event loop"))
        with pytest.raises(ValueError, match="different event loop"):
            await subscription(interrupt).next(60)

    run(scene)


@pytest.mark.parametrize("learned", [True, False])
def test_a_lost_start_at_latest_is_told(learned: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A stream at `latest` logs a warning if it is lost before a replay id came, and only then."""

    async def scene(streams: Streams, subscription: Any) -> None:
        first = [keepalive(b"\xab")] if learned else []
        streams.says = [[*first, StreamEndedError("it ended")]]
        one = subscription()
        await one.ask_up_to(1)
        while not one.losses:
            await one.next(1.0)
        await one.next(1.0)

    with caplog.at_level(logging.WARNING):
        streams = run(scene, start=LATEST)
    assert [stream.start for stream in streams.opened] == [
        LATEST,
        ReplayPoint("ab") if learned else LATEST,
    ]
    assert ("are missed" in caplog.text) is not learned
