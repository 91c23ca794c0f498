"""One Subscribe call: requests out, deliveries in. Knows nothing of bounds, credit or reconnects.

Two traits of grpc.aio shape it. Cancelling a read cancels the call, so a read that is under way is kept when a wait for it runs out. And
`call.read()` ends at once after a write that found the stream closed, though deliveries are still buffered; what is lost then has been paid
for and would be delivered again. Iterating over the call goes on to the real end, so that is how it is read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import grpc.aio

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.delivery import Delivery, from_response
from airflow_provider_sfevents.pubsub.errors import from_rpc
from airflow_provider_sfevents.pubsub.start import first_request, further_request

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.clock import Clock


class StreamEnded(TransportError):  # noqa: N818 - what happened, not an -Error
    """The service ended the stream without an error; opening another one is right."""


class EventStream(Protocol):
    """What a subscription needs of one stream."""

    async def ask(self, events: int) -> None: ...

    async def read(
        self, timeout_seconds: float, interrupt: asyncio.Future[Any] | None
    ) -> Delivery | None: ...

    async def half_close(self) -> None: ...

    async def close(self) -> None: ...


class Stream:
    """:param secret: the token the call carries; it must not show in an error."""

    def __init__(
        self, call: Any, topic: str, start: str, *, doing: str, secret: str, clock: Clock
    ) -> None:
        self._call = call
        self._responses = call.__aiter__()
        self._topic = topic
        self._start = start
        self._doing = doing
        self._secret = secret
        self._clock = clock
        self._asked = False
        self._reading: asyncio.Task[Any] | None = None

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

    async def read(
        self, timeout_seconds: float, interrupt: asyncio.Future[Any] | None = None
    ) -> Delivery | None:
        """The next delivery; None when there was none in time, or the interrupt came first.

        :raises StreamEnded: after the last one. :raises SfEventsError: when the stream failed.
        """
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._next_response())
        waiting = {self._reading} if interrupt is None else {self._reading, interrupt}
        await asyncio.wait(waiting, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        try:
            response = reading.result()
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error, self._doing, self._secret) from None
        if response is None:
            raise StreamEnded(f"{self._doing}: the service ended the stream.")
        return from_response(response, int(self._clock.now().timestamp() * 1_000_000))

    async def half_close(self) -> None:
        """Nothing more will be asked for; the service then ends the stream."""
        await self._call.done_writing()

    async def close(self) -> None:
        """Cancels what is left of the call; harmless where nothing is."""
        self._call.cancel()
        reading, self._reading = self._reading, None
        if reading is not None:
            await asyncio.wait((reading,))
            if not reading.cancelled():
                reading.exception()  # seen, and of no interest any more
        await self._responses.aclose()

    async def _next_response(self) -> Any:
        """None after the last one."""
        return await anext(self._responses, None)
