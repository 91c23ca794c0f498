"""Subscribe call: requests out, deliveries in; below it the bidirectional call that it is.

It knows nothing of bounds, credit or reconnects. Three traits of grpc.aio shape it.

1. Cancelling a read cancels the call. So a task of its own reads, and `read` waits for that task.
2. `call.read()` ends at once after a write that found the stream closed, though deliveries are
   still buffered; lost ones have been paid for and would be delivered again. Iterating over the
   call continues to the real end, so the call is read by iteration.
3. Such a write can also cover the stream's status with an INTERNAL of gRPC's own, which looks like
   a passing error. The real status came before it and is known to a callback of the call, or comes
   after it and replaces it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import grpc.aio
from typing_extensions import override

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchRequest, ReplayPreset
from airflow_provider_sfevents.pubsub.credit import MAX_CREDIT, SPAN
from airflow_provider_sfevents.pubsub.rpc_errors import from_rpc
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery, from_response
from airflow_provider_sfevents.pubsub.streaming.wake_up import WakeUp
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.auth.secret import Secret
    from airflow_provider_sfevents.pubsub.clock import Clock


# Bytes that are read ahead of the caller. gRPC drops unread responses when a stream is reset, and
# they are paid for. A response may have 3 MB.
_READ_AHEAD_BYTES = 4_000_000
# Status after a write that met the end of its stream. The real one, if it is still to come, takes
# some iterations of the loop.
_COVER = "Internal error from Core"
GATHER_SECONDS = 0.001
"""Time after a delivery in which responses are gathered for the next one. Where they come one after
the other, a step of the client for each would take longer than reading it."""
GATHER_CREDIT = MAX_CREDIT - SPAN
"""Events still to come at which more are requested, where the link is fast."""
_STATUS_SECONDS = 0.5
_LOOK_AGAIN_SECONDS = 0.005


class StreamEndedError(TransportError):
    """The service ended the stream without an error; opening another one is right."""


class SubscriptionStream(Protocol):
    """Interface of one stream for a subscription."""

    async def ask(self, events: int, start: ReplayPoint) -> None: ...

    async def read(self, timeout_seconds: float) -> Delivery | None: ...

    def wake(self) -> None: ...

    async def half_close(self) -> None: ...

    async def close(self) -> None: ...


class BidiStream:
    """A call in which both sides send at any time; responses are read ahead of the caller.

    :param secret: the token of the call; it must not show in an error.
    """

    def __init__(self, call: Any, *, doing: str, secret: Secret, clock: Clock) -> None:
        self._call = call
        self._doing = doing
        self._secret = secret
        self._clock = clock
        self._rpc_id = ""
        self._first_status: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._note_status)
        self._reader: asyncio.Task[None] | None = None
        self._arrived: deque[tuple[float, int, Any]] = deque()
        self._unread_bytes = 0
        self._room = asyncio.Event()
        self._end: SfEventsError | None = None
        self._wake_up = WakeUp()
        self._gather_until = 0.0
        self._gathering: asyncio.TimerHandle | None = None

    async def write(self, message: Any) -> None:
        """Send a message. A failed call raises when it is read, not here."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(message)

    async def arrival(self, timeout_seconds: float) -> tuple[float, int, Any] | None:
        """Arrival time, bytes and message of the next response.

        None if none came in time, or `wake` was called.

        :raises StreamEndedError: after the last one.
        :raises SfEventsError: when the call failed.
        """
        self._read_ahead()
        if not self._arrived and self._end is None:
            await self._wake_up.wait(timeout_seconds)
        if self._arrived:
            return self._taken()
        if self._end is not None:
            raise self._end
        return None

    def _taken(self) -> tuple[float, int, Any]:
        arrived = self._arrived.popleft()
        self._unread_bytes -= arrived[1]
        self._room.set()
        return arrived

    def wake(self) -> None:
        """Let a waiting `arrival` return."""
        self._wake_up.wake()

    async def half_close(self) -> None:
        """End the requests; the service then ends the stream."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.done_writing()

    async def close(self) -> None:
        """Cancel the call; harmless if it has ended."""
        if self._call is None:
            return
        self._call.cancel()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.wait((reader,))
        # A call holds its connection. The error of a cancelled task may keep this object alive, but
        # not the call.
        self._call = None

    def _is_answer(self, response: Any) -> bool:  # noqa: ARG002 - of another kind of stream
        """True if a response is the answer to another request, and no delivery."""
        return False

    def _is_full(self) -> bool:
        return self._unread_bytes >= _READ_AHEAD_BYTES

    def _forget_arrived(self) -> int:
        """Drop what the caller has not read; returns the number of events."""
        dropped = sum(len(response.events) for _, _, response in self._arrived)
        self._arrived.clear()
        self._unread_bytes = 0
        self._room.set()
        return dropped

    def _read_ahead(self) -> None:
        if self._reader is None:
            self._reader = asyncio.ensure_future(self._read_on())

    async def _read_on(self) -> None:
        """Read ahead up to a number of bytes; then the connection holds the service back."""
        try:
            async for response in self._call:
                self._rpc_id = response.rpc_id
                if self._is_answer(response):
                    continue
                size = response.ByteSize()
                self._arrived.append((self._clock.now().timestamp(), size, response))
                self._unread_bytes += size
                self._tell(response)
                while self._is_full():
                    self._room.clear()
                    await self._room.wait()
            self._end = self._polite_end()
        except grpc.aio.AioRpcError as error:
            self._end = await self._real_end(error)
        except asyncio.CancelledError:
            self._end = StreamEndedError(f"{self._doing}: the call was cancelled.")
            raise
        finally:
            self.wake()

    def _gathers(self, response: Any) -> bool:  # noqa: ARG002 - of another kind of stream
        """True if the caller may wait for more than this response."""
        return False

    def _tell(self, response: Any) -> None:
        """Wake the caller, at once or when the time to gather is over."""
        loop = asyncio.get_running_loop()
        if not self._gathers(response) or loop.time() >= self._gather_until or self._is_full():
            self.wake()
        elif self._gathering is None:
            self._gathering = loop.call_at(self._gather_until, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        if self._arrived:
            self.wake()

    def _note_status(self, call: Any) -> None:
        """Keep the first status of the call, not one that covers it later."""
        self._first_status = _at_once(_status(call))

    async def _real_end(self, error: grpc.aio.AioRpcError) -> SfEventsError:
        """The service's own status of the stream, if a write of the client has covered it."""
        if self._first_status is not None and _is_cover(error):
            error = self._first_status
        until = asyncio.get_running_loop().time() + _STATUS_SECONDS
        while _is_cover(error) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            error = await _status(self._call)
        if error.code() is grpc.StatusCode.OK:
            return self._polite_end()
        return from_rpc(error, self._doing, self._secret, rpc_id=self._rpc_id)

    def _polite_end(self) -> StreamEndedError:
        label = f" (rpc id {self._rpc_id})" if self._rpc_id else ""
        return StreamEndedError(
            f"{self._doing}: the service ended the stream{label}.", rpc_id=self._rpc_id
        )


class SubscribeCall(BidiStream):
    """A Subscribe call.

    :param secret: the token of the call; it must not show in an error.
    """

    def __init__(self, call: Any, topic: str, *, doing: str, secret: Secret, clock: Clock) -> None:
        super().__init__(call, doing=doing, secret=secret, clock=clock)
        self._topic = topic
        self._asked = False

    async def ask(self, events: int, start: ReplayPoint) -> None:
        """Request events; only the first request names the start, and later ones ignore it.

        A failed stream raises when it is read, not here.
        """
        message = self._request(events, start)
        self._asked = True
        await self.write(message)

    async def read(self, timeout_seconds: float) -> Delivery | None:
        """The next delivery; None if none came in time, or `wake` was called.

        Responses with events that came one after the other are one delivery; a keepalive is one by
        itself.

        :raises StreamEndedError: after the last one.
        :raises SfEventsError: when the stream failed.
        """
        arrived = await self.arrival(timeout_seconds)
        if arrived is None:
            return None
        received_at, size, response = arrived
        events = response.events
        while events and self._arrived and self._arrived[0][2].events:
            _, more, response = self._taken()
            size += more
            events = [*events, *response.events]
        self._gather_until = asyncio.get_running_loop().time() + GATHER_SECONDS
        return from_response(response, events, int(received_at * 1_000_000), size)

    @override
    def _gathers(self, response: Any) -> bool:
        """Until events are to be requested; a keepalive waits for nothing."""
        return bool(response.events) and response.pending_num_requested > GATHER_CREDIT

    def _request(self, events: int, start: ReplayPoint) -> Any:
        if self._asked:
            return further_request(self._topic, events)
        return first_request(self._topic, start, events)


def first_request(topic: str, start: ReplayPoint, events: int) -> FetchRequest:
    """First request of a stream; the service reads the start in no other."""
    if start == EARLIEST:
        return FetchRequest(
            topic_name=topic, replay_preset=ReplayPreset.EARLIEST, num_requested=events
        )
    if start == LATEST:
        return FetchRequest(
            topic_name=topic, replay_preset=ReplayPreset.LATEST, num_requested=events
        )
    return FetchRequest(
        topic_name=topic,
        replay_preset=ReplayPreset.CUSTOM,
        replay_id=bytes.fromhex(start.to_text()),
        num_requested=events,
    )


def further_request(topic: str, events: int) -> FetchRequest:
    return FetchRequest(topic_name=topic, num_requested=events)


async def _status(call: Any) -> grpc.aio.AioRpcError:
    code, details = await call.code(), await call.details()
    trailers = await call.trailing_metadata() or grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details)


def _at_once(result: Coroutine[Any, Any, grpc.aio.AioRpcError]) -> grpc.aio.AioRpcError | None:
    """Result of a coroutine that does not wait.

    A callback cannot await, and a task would run too late.
    """
    try:
        result.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    result.close()
    return None


def _is_cover(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == _COVER
