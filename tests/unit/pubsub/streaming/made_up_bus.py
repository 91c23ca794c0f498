"""A topic in memory; the test decides when its streams deliver, and in what pieces."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ReplayIdRefusedError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import BoundedFetch
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
from airflow_provider_sfevents.pubsub.streaming.event_time import event_time_reader
from airflow_provider_sfevents.pubsub.streaming.shared_subscription import SharedStreams
from airflow_provider_sfevents.pubsub.streaming.stream_position import JoinRequest
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import StreamEndedError
from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription
from airflow_provider_sfevents.pubsub.streaming.wake_up import WakeUp
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
    from airflow_provider_sfevents.pubsub.streaming.event_time import EventTime

TOPIC = "/event/Order__e"
FOREVER = 7 * 24 * 3600.0


def event_id(number: int) -> str:
    """The replay id of the event with this number; the first is 1."""
    return f"e0{number:08x}"


class Bus:
    """Events are numbered from 1. It is a `StreamSource` for a `Subscription`.

    :param piece: most events in one response.

    `streams` are all that were opened; `delivered` counts the delivered events; replay ids in
    `forgotten` are refused.
    """

    def __init__(self, piece: int = 16) -> None:
        self.piece = piece
        self.published = 0
        self.delivered = 0
        self.streams: list[MadeUpStream] = []
        self.forgotten: set[str] = set()
        self.held_back: asyncio.Event | None = None
        self._places = {"earliest": 0}

    @property
    def running(self) -> list[MadeUpStream]:
        return [stream for stream in self.streams if not stream.closed]

    def after(self, name: str) -> int:
        """Number of events before the position of this replay id."""
        return self._places[name]

    def publish(self, events: int) -> None:
        for number in range(self.published + 1, self.published + events + 1):
            self._places[event_id(number)] = number
        self.published += events
        for stream in self.running:
            stream.feed()

    def keepalive(self) -> str:
        """Send the same new replay id on every stream that has caught up, and return it."""
        name = f"aa{len(self._places):08x}"
        self._places[name] = self.published
        for stream in self.running:
            if stream.at == self.published and not stream.has_failed:
                stream.say((), bytes.fromhex(name))
        return name

    def lose(self, error: SfEventsError) -> None:
        """Let every open stream fail, behind its deliveries."""
        for stream in self.running:
            stream.fail(error)

    @property
    def doing(self) -> str:
        return "Subscribing to a topic"

    async def reach(self) -> None:
        """The service is always reachable."""

    async def renew(self, why: SfEventsError) -> None:
        raise AssertionError("no session was refused")

    async def open(self) -> MadeUpStream:
        if self.held_back is not None:
            await self.held_back.wait()
        stream = MadeUpStream(self)
        self.streams.append(stream)
        return stream


class MadeUpStream:
    """One stream; the first request says where it starts.

    A scripted error comes behind its deliveries.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.start = ""
        self.at = -1  # number of events before its position; none before the first request
        self.credit = 0
        self.most_owed = 0
        self.asked: list[int] = []
        self.half_closed = False
        self.closed = False
        self.has_failed = False
        self._arrived: list[Delivery | SfEventsError] = []
        self._wake_up = WakeUp()

    @property
    def unread(self) -> int:
        """Number of unread responses."""
        return len(self._arrived)

    async def ask(self, events: int, start: ReplayPoint) -> None:
        await asyncio.sleep(0)  # a write takes its time
        if not self.start:
            self.start = start.to_text()
            self.at = self._bus.published if start == LATEST else self._bus.after(self.start)
        self.asked.append(events)
        self.most_owed = max(self.most_owed, self.credit + events)
        self.credit = min(100, self.credit + events)
        if self.start in self._bus.forgotten:
            self.fail(ReplayIdRefusedError(f"{self.start} is not known"))
        self.feed()

    def feed(self) -> None:
        while (size := min(self._bus.piece, self.credit, self._bus.published - self.at)) > 0:
            if self.has_failed or self.closed:
                return
            numbers = range(self.at + 1, self.at + size + 1)
            self.at += size
            self.credit -= size
            self._bus.delivered += size
            self.say(numbers, bytes.fromhex(event_id(self.at)))

    def say(self, numbers: range | tuple[()], latest: bytes) -> None:
        events = [
            pb2.ConsumerEvent(
                replay_id=bytes.fromhex(event_id(number)), event=pb2.ProducerEvent(payload=b"x")
            )
            for number in numbers
        ]
        self._arrive(
            Delivery(
                events=events,
                latest_replay_id=latest,
                pending=self.credit,
                rpc_id="r-1",
                received_at=0,
                size=1_000_000 * len(events),
            )
        )

    def fail(self, error: SfEventsError) -> None:
        self.has_failed = True
        self._arrive(error)

    async def read(self, timeout_seconds: float) -> Delivery | None:
        if not self._arrived:
            await self._wake_up.wait(timeout_seconds)
        if not self._arrived:
            return None
        said = self._arrived[0]
        if not isinstance(said, Delivery):
            raise said
        del self._arrived[0]
        return said

    def wake(self) -> None:
        self._wake_up.wake()

    async def half_close(self) -> None:
        if not self.half_closed:
            self.half_closed = True
            self.fail(StreamEndedError("it ended"))

    async def close(self) -> None:
        self.closed = True

    def _arrive(self, said: Delivery | SfEventsError) -> None:
        self._arrived.append(said)
        self._wake_up.wake()


@dataclass(eq=False)
class Wait:
    """A fetch on shared streams, in a task of its own.

    It records its events, and each keepalive with the event before it. :param gate: while it is
    clear, handed-over events are being staged.
    """

    task: asyncio.Task[FetchResult] = field(init=False)
    numbers: list[int] = field(default_factory=list)
    waited: list[tuple[str, int | None]] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self, delivery: Delivery) -> None:
        self.numbers += [int(replay_id[1:].hex(), 16) for replay_id in delivery.replay_ids]
        await self.gate.wait()

    async def hear(self, name: str) -> None:
        self.waited.append((name, self.numbers[-1] if self.numbers else None))

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


class Waits:
    """A client's waits on one topic of one bus."""

    def __init__(self, bus: Bus) -> None:
        self._clock = Clock(chance=lambda: 0.0)
        self.streams = SharedStreams(
            lambda _, start: Subscription(bus, start, self._clock, timeouts=Timeouts())
        )

    def begin(
        self, start: str, max_events: int = 100, *, also: tuple[str, ...] = (), busy: bool = False
    ) -> Wait:
        """Begin a wait for so many events.

        :param busy: it stages without end, until its gate is set.
        """
        wait = Wait()
        if not busy:
            wait.gate.set()
        wait.task = asyncio.ensure_future(self._fetch(wait, start, max_events, also))
        return wait

    async def _fetch(
        self, wait: Wait, start: str, max_events: int, also: tuple[str, ...]
    ) -> FetchResult:
        interrupt = asyncio.ensure_future(wait.stop.wait())
        try:
            member = self.streams.member(
                TOPIC,
                JoinRequest(start=ReplayPoint(start), equal_points=tuple(map(ReplayPoint, also))),
                interrupt,
            )
            bounds = Bounds(max_events=max_events, max_seconds=FOREVER, idle_seconds=FOREVER)
            return await BoundedFetch(
                member,
                bounds,
                wait.receive,
                on_keepalive=wait.hear,
                already=StagedProgress(),
                stopped=wait.stop.is_set,
                times_of=_no_times,
                clock=self._clock,
            ).run()
        finally:
            interrupt.cancel()


async def _no_times(schema_id: str) -> EventTime:
    return event_time_reader("")


async def settle() -> None:
    """Run the loop until every task only waits."""
    for _ in range(60):
        await asyncio.sleep(0)
