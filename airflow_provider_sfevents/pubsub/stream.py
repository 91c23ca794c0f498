"""One Subscribe call: requests out, deliveries in. Knows nothing of bounds, credit or reconnects.

Three traits of grpc.aio shape it.

1. Cancelling a read cancels the call. So a task of its own reads, and `read` waits for that task's word.
2. `call.read()` ends at once after a write that found the stream closed, though deliveries are still buffered; what is lost then has been
   paid for and would be delivered again. Iterating over the call goes on to the real end, so that is how it is read.
3. Such a write can also hide the stream's status behind an INTERNAL of gRPC's own, which looks like a passing fault. The next stream is
   then refused with the real one, before anything is delivered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import grpc.aio

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.delivery import Delivery, from_response
from airflow_provider_sfevents.pubsub.errors import from_rpc
from airflow_provider_sfevents.pubsub.start import first_request, further_request

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchResponse
    from airflow_provider_sfevents.pubsub.clock import Clock


_READ_AHEAD = 2


class StreamEnded(TransportError):  # noqa: N818 - what happened, not an -Error
    """The service ended the stream without an error; opening another one is right."""


class EventStream(Protocol):
    """What a subscription needs of one stream."""

    async def ask(self, events: int) -> None: ...

    async def read(self, timeout_seconds: float) -> Delivery | None: ...

    def wake(self) -> None: ...

    async def half_close(self) -> None: ...

    async def close(self) -> None: ...


class Stream:
    """:param secret: the token the call carries; it must not show in an error."""

    def __init__(
        self, call: Any, topic: str, start: str, *, doing: str, secret: str, clock: Clock
    ) -> None:
        self._call = call
        self._topic = topic
        self._start = start
        self._doing = doing
        self._secret = secret
        self._clock = clock
        self._asked = False
        self._reader: asyncio.Task[None] | None = None
        self._arrived: deque[tuple[float, FetchResponse]] = deque()
        self._room = asyncio.Event()
        self._end: SfEventsError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def ask(self, events: int) -> None:
        """Where to start is said with the first request only. A stream that has failed says so when it is read."""
        message = (
            further_request(self._topic, events)
            if self._asked
            else first_request(self._topic, self._start, events)
        )
        self._asked = True
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(message)

    async def read(self, timeout_seconds: float) -> Delivery | None:
        """The next delivery; None when there was none in time, or `wake` was called.

        :raises StreamEnded: after the last one. :raises SfEventsError: when the stream failed.
        """
        if self._reader is None:
            self._reader = asyncio.ensure_future(self._read_on())
        if not self._arrived and self._end is None:
            await self._wait(timeout_seconds)
        if self._arrived:
            received_at, response = self._arrived.popleft()
            self._room.set()
            return from_response(response, int(received_at * 1_000_000))
        if self._end is not None:
            raise self._end
        return None

    def wake(self) -> None:
        """Lets a `read` that waits return."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def half_close(self) -> None:
        """Nothing more will be asked for; the service then ends the stream."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.done_writing()

    async def close(self) -> None:
        """Cancels what is left of the call; harmless where nothing is."""
        self._call.cancel()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.wait((reader,))

    async def _wait(self, timeout_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout_seconds, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    async def _read_on(self) -> None:
        """Reads ahead of `read` by a few responses, for a response may have 3 MB; then the connection holds the service back."""
        try:
            async for response in self._call:
                self._arrived.append((self._clock.now().timestamp(), response))
                self.wake()
                while len(self._arrived) >= _READ_AHEAD:
                    self._room.clear()
                    await self._room.wait()
            self._end = StreamEnded(f"{self._doing}: the service ended the stream.")
        except grpc.aio.AioRpcError as error:
            self._end = from_rpc(error, self._doing, self._secret)
        except asyncio.CancelledError:
            self._end = StreamEnded(f"{self._doing}: the call was cancelled.")
            raise
        finally:
            self.wake()
