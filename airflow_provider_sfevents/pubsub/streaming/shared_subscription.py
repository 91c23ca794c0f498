"""Streams shared by the waits of one client, and a wait's subscription to one of them."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.streaming.shared_stream import SharedStream
from airflow_provider_sfevents.pubsub.streaming.stream_position import JoinRequest, ends_member
from airflow_provider_sfevents.pubsub.streaming.wake_up import Interrupt, WakeUp
from airflow_provider_sfevents.replay_point import ReplayPoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription

# A member that holds so much more than the quickest leaves the stream: missed events are delivered
# again to it, but no member waits for it, and memory does not grow.
_MOST_HELD_BYTES = 4_000_000


class SharedStreams:
    """All streams of one client; those of a topic differ by their positions.

    :param subscription: makes a subscription, from a topic and a start.
    """

    def __init__(self, subscription: Callable[[str, ReplayPoint], Subscription]) -> None:
        self._make = subscription
        self._streams: dict[str, list[SharedStream]] = {}

    def member(
        self, topic: str, request: JoinRequest, interrupt: asyncio.Future[Any] | None
    ) -> SharedSubscription:
        return SharedSubscription(lambda joining: self._found(topic, joining), request, interrupt)

    async def close(self) -> None:
        for streams in tuple(self._streams.values()):
            for stream in tuple(streams):
                await stream.close()

    def _found(self, topic: str, request: JoinRequest) -> SharedStream:
        """A stream that admits the request, or a new one."""
        streams = self._streams.setdefault(topic, [])
        for stream in streams:
            if stream.admits(request):
                return stream

        def forget(stream: SharedStream) -> None:
            if stream in streams:
                streams.remove(stream)
            if not streams and self._streams.get(topic) is streams:
                del self._streams[topic]

        made = SharedStream(request, lambda start: self._make(topic, start), forget)
        streams.append(made)
        return made


class SharedSubscription:
    """Subscription of a fetch to a shared stream, which it joins with the first `next`.

    :param find: returns the stream to join.
    :param interrupt: when it is done, `next` returns at once.
    """

    def __init__(
        self,
        find: Callable[[JoinRequest], SharedStream],
        request: JoinRequest,
        interrupt: asyncio.Future[Any] | None = None,
    ) -> None:
        self._find = find
        self._request = request
        self._stream: SharedStream | None = None
        self._wake_up = WakeUp()
        self._interrupt = Interrupt(interrupt, self._wake_up.wake)
        self._held: list[Delivery] = []
        self._asked = 0
        self._losses = 0
        self._open_failure: SfEventsError | None = None

    # --- as a delivery source --------------------------------------------------------------------

    @property
    def failure(self) -> SfEventsError | None:
        """The last loss's error, until a stream answers again."""
        return (self._stream.failure if self._stream is not None else None) or self._open_failure

    @property
    def losses(self) -> int:
        """Streams lost during the membership."""
        return self._losses + (self._stream.losses if self._stream is not None else 0)

    def listening_since(self, now: float) -> float:
        return now if self._stream is None else self._stream.listening_since(now)

    async def ask_up_to(self, wanted: int) -> None:
        """Set the wanted events; those that are held already count towards it."""
        self._asked = wanted - self._held_events()
        if self._stream is not None:
            self._stream.update_credit()

    async def next(
        self, timeout_seconds: float, opening_seconds: float | None = None
    ) -> Delivery | None:
        """As `Subscription.next`; held deliveries come before a stream's error."""
        if self._interrupt.is_set():
            await asyncio.sleep(0)  # lets other tasks run if the caller continues anyway
            return None
        stream = self._joined()
        if not self._held and not stream.is_over:
            opening = timeout_seconds if opening_seconds is None else opening_seconds
            await self._wait(timeout_seconds if stream.is_open else opening, stream)
        if self._held:
            return self._handed()
        self._raise_end(stream)
        return None

    async def half_close(self) -> None:
        """Leave the stream: nothing more is requested for this member."""
        self._asked = 0
        if self._stream is not None and self._stream.leave(self):
            self._detach()

    async def rest(self) -> AsyncIterator[Delivery]:
        """Held deliveries; the last member also gets those that come until the stream's end."""
        await self.half_close()
        while True:
            while self._held:
                yield self._handed()
            if self._stream is None or self._stream.is_over:
                break
            await self._wake_up.wait()
        await self.close()

    async def close(self) -> None:
        """Leave the stream, and close it if this is its last member."""
        stream = self._stream
        self._detach()
        self._held.clear()
        if stream is not None:
            await stream.drop(self)

    # --- as a member of the stream ----------------------------------------------------------------

    @property
    def request(self) -> JoinRequest:
        return self._request

    @property
    def wanted(self) -> int:
        return max(0, self._asked)

    @property
    def is_full(self) -> bool:
        return sum(one.size for one in self._held) >= _MOST_HELD_BYTES

    def deliver(self, delivery: Delivery) -> None:
        self._held.append(delivery)
        self._asked -= len(delivery)
        self._open_failure = None
        if delivery.resume_after:
            self._request = JoinRequest(start=ReplayPoint.after(delivery.resume_after))
        self._wake_up.wake()

    def wake(self) -> None:
        self._wake_up.wake()

    def detach(self) -> None:
        self._detach()

    # --- internal ---------------------------------------------------------------------------------

    def _joined(self) -> SharedStream:
        if self._stream is None:
            stream = self._find(self._request)
            self._losses -= stream.losses
            self._stream = stream
            stream.join(self)
        return self._stream

    async def _wait(self, seconds: float, stream: SharedStream) -> None:
        woken = await self._wake_up.wait(seconds)
        if not woken and not stream.is_open:
            self._open_failure = stream.not_opened(seconds)

    def _detach(self) -> None:
        if self._stream is not None:
            self._losses += self._stream.losses
            self._stream = None

    def _raise_end(self, stream: SharedStream) -> None:
        """Raise the error that ended the stream, if it ends this member too."""
        if not stream.is_over:
            return
        self._detach()
        error = stream.error
        if error is not None and ends_member(error, stream.replay_point, self._request.start):
            # a copy for each member: a raised error keeps its traceback
            raise copy(error) from error

    def _handed(self) -> Delivery:
        delivery = self._held.pop(0)
        if self._stream is not None:
            self._stream.update_credit()
        return delivery

    def _held_events(self) -> int:
        return sum(len(one) for one in self._held)
