"""One call with messages both ways, and the Subscribe call: requests out, deliveries in. Knows nothing of bounds, credit or reconnects.

Three traits of grpc.aio shape it.

1. Cancelling a read cancels the call. So a task of its own reads, and `read` waits for that task's word.
2. `call.read()` ends at once after a write that found the stream closed, though deliveries are still buffered; what is lost then has been
   paid for and would be delivered again. Iterating over the call goes on to the real end, so that is how it is read.
3. Such a write can also cover the stream's status with an INTERNAL of gRPC's own, which looks like a passing fault. The real one came
   before it and is known to a callback of the call, or comes after it and takes its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import grpc.aio

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchRequest, ReplayPreset
from airflow_provider_sfevents.pubsub.replay_ids import EARLIEST, LATEST
from airflow_provider_sfevents.pubsub.rpc_errors import from_rpc
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery, from_response
from airflow_provider_sfevents.pubsub.streaming.wake_up import WakeUp

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.auth.secret import Secret
    from airflow_provider_sfevents.pubsub.clock import Clock


# How much is read before the caller takes it. gRPC throws away what it holds unread when a stream is reset, and that has been paid for;
# a response may have 3 MB, though.
_READ_AHEAD_BYTES = 4_000_000
# What a write that met the end of its stream leaves as status; the real one, if it is still to come, takes some turns of the loop.
_COVER = "Internal error from Core"
_STATUS_SECONDS = 0.5
_LOOK_AGAIN_SECONDS = 0.005


class StreamEndedError(TransportError):
    """The service ended the stream without an error; opening another one is right."""


class DeliveryStream(Protocol):
    """What a subscription needs of one stream."""

    async def ask(self, events: int) -> None: ...

    async def read(self, timeout_seconds: float) -> Delivery | None: ...

    def wake(self) -> None: ...

    async def half_close(self) -> None: ...

    async def close(self) -> None: ...


class BidiStream:
    """A call in which both sides send when they like; what comes is read ahead of whoever takes it.

    :param secret: the token the call carries; it must not show in an error.
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
        self._room = asyncio.Event()
        self._end: SfEventsError | None = None
        self._wake_up = WakeUp()

    async def write(self, message: Any) -> None:
        """A call that has failed says so when it is read."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(message)

    async def arrival(self, timeout_seconds: float) -> tuple[float, int, Any] | None:
        """When the next response came, its bytes, and itself; None when there was none in time, or `wake` was called.

        :raises StreamEnded: after the last one. :raises SfEventsError: when the call failed.
        """
        self._read_ahead()
        if not self._arrived and self._end is None:
            await self._wake_up.wait(timeout_seconds)
        if self._arrived:
            arrived = self._arrived.popleft()
            self._room.set()
            return arrived
        if self._end is not None:
            raise self._end
        return None

    def wake(self) -> None:
        """Lets whoever waits for a response go on."""
        self._wake_up.wake()

    async def half_close(self) -> None:
        """Nothing more will be asked for; the service then ends the stream."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.done_writing()

    async def close(self) -> None:
        """Cancels what is left of the call; harmless where nothing is."""
        if self._call is None:
            return
        self._call.cancel()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.wait((reader,))
        # A call holds its connection. Whoever keeps the error of a cancelled task keeps us, but shall not keep that.
        self._call = None

    def _is_answer(self, response: Any) -> bool:  # noqa: ARG002 - of another kind of stream
        """Whether a response is no delivery, but the answer to something that was asked besides."""
        return False

    def _is_full(self) -> bool:
        return sum(size for _, size, _ in self._arrived) >= _READ_AHEAD_BYTES

    def _read_ahead(self) -> None:
        if self._reader is None:
            self._reader = asyncio.ensure_future(self._read_on())

    async def _read_on(self) -> None:
        """Reads ahead by so many bytes; then the connection holds the service back."""
        try:
            async for response in self._call:
                self._rpc_id = response.rpc_id
                if self._is_answer(response):
                    continue
                arrived = (self._clock.now().timestamp(), response.ByteSize(), response)
                self._arrived.append(arrived)
                self.wake()
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

    def _note_status(self, call: Any) -> None:
        """Called with the first status a call gets, and not with what covers it later."""
        self._first_status = _at_once(_status(call))

    async def _real_end(self, error: grpc.aio.AioRpcError) -> SfEventsError:
        """What the service ended the stream with, should a write of ours have covered it."""
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


class SubscribeStream(BidiStream):
    """A Subscribe call.

    :param secret: the token the call carries; it must not show in an error.
    """

    def __init__(
        self, call: Any, topic: str, start: str, *, doing: str, secret: Secret, clock: Clock
    ) -> None:
        super().__init__(call, doing=doing, secret=secret, clock=clock)
        self._topic = topic
        self._start = start
        self._asked = False

    async def ask(self, events: int) -> None:
        """Where to start is said with the first request only. A stream that has failed says so when it is read."""
        message = self._request(events)
        self._asked = True
        await self.write(message)

    async def read(self, timeout_seconds: float) -> Delivery | None:
        """The next delivery; None when there was none in time, or `wake` was called.

        :raises StreamEnded: after the last one. :raises SfEventsError: when the stream failed.
        """
        arrived = await self.arrival(timeout_seconds)
        if arrived is None:
            return None
        received_at, size, response = arrived
        return from_response(response, int(received_at * 1_000_000), size)

    def _request(self, events: int) -> Any:
        if self._asked:
            return further_request(self._topic, events)
        return first_request(self._topic, self._start, events)


def first_request(topic: str, start: str, events: int) -> FetchRequest:
    """The only request that says where to start; the service reads that in no other."""
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
        replay_id=bytes.fromhex(start),
        num_requested=events,
    )


def further_request(topic: str, events: int) -> FetchRequest:
    return FetchRequest(topic_name=topic, num_requested=events)


async def _status(call: Any) -> grpc.aio.AioRpcError:
    code, details = await call.code(), await call.details()
    trailers = await call.trailing_metadata() or grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details)


def _at_once(result: Coroutine[Any, Any, grpc.aio.AioRpcError]) -> grpc.aio.AioRpcError | None:
    """The result of a coroutine that has nothing to wait for: a callback cannot await, and a task would come too late."""
    try:
        result.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    result.close()
    return None


def _is_cover(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == _COVER
