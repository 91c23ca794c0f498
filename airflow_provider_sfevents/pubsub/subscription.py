"""A subscription that outlives its streams: credit kept up, lost streams replaced, no event delivered to the caller twice.

After a loss it goes on strictly after the last replay id received, be it an event's or a keepalive's. The start is never changed for
another reason: a replay id the bus refuses is an error.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import SfEventsError, TransportError
from airflow_provider_sfevents.pubsub import credit
from airflow_provider_sfevents.pubsub.reconnect import next_step
from airflow_provider_sfevents.pubsub.start import LATEST
from airflow_provider_sfevents.pubsub.stream import EventStream, StreamEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.delivery import Delivery

logger = logging.getLogger(__name__)

# A keepalive comes at least every 270 s; a stream silent for longer is dead, whatever the connection says.
MAX_SILENCE_SECONDS = 300.0
# After a half-close the service ends the stream within a second; one that does not is cancelled.
REST_SECONDS = 10.0


class Source(Protocol):
    """Where a subscription gets its streams from."""

    async def reach(self) -> None:
        """:raises SfEventsError: when the service cannot be reached, or the topic not be read, just now."""

    async def open(self, start: str) -> EventStream: ...

    async def renew(self) -> None:
        """Gets a session other than that of the last stream."""


class Subscription:
    """Opens nothing before the first `next`.

    :param interrupt: when it is done, `next` returns at once.

    `losses` are the streams lost so far; `failure` is the last loss's error while no stream has answered since.
    """

    def __init__(
        self, source: Source, start: str, clock: Clock, interrupt: asyncio.Future[Any] | None = None
    ) -> None:
        self._source = source
        self._start = start
        self._clock = clock
        self._interrupt = interrupt
        self._stream: EventStream | None = None
        self._outstanding = 0
        self._wanted = 0
        self._tries = 0
        self._renewed = False
        self._renew = False
        if interrupt is not None:
            interrupt.add_done_callback(self._wake)
        self._open_at = clock.monotonic()
        self._heard_at = self._open_at
        self.failure: SfEventsError | None = None
        self.losses = 0

    def listening_since(self, now: float) -> float:
        """Since when this stream has been open; now, while there is none: then silence means nothing."""
        return now if self._stream is None else self._open_at

    async def ask_up_to(self, wanted: int) -> None:
        """Tops the credit up to so many events; it cannot be lowered, only be let run down."""
        self._wanted = wanted
        asking = credit.to_ask(self._outstanding, wanted)
        if self._stream is not None and asking:
            self._outstanding += asking
            await self._stream.ask(asking)

    async def next(self, timeout_seconds: float) -> Delivery | None:
        """The next delivery; None: nothing came in time, or a stream was lost, which the next call replaces.

        :raises SfEventsError: when another stream would not help.
        """
        try:
            stream = self._stream or await self._opened(timeout_seconds)
            if stream is None:
                return None
            return await self._heard(stream, timeout_seconds)
        except SfEventsError as error:
            await self._lost(error)
            return None

    async def half_close(self) -> None:
        """Asks for nothing more; `rest` yields what is still delivered."""
        self._wanted = 0
        if self._stream is not None:
            await self._stream.half_close()

    async def rest(self) -> AsyncIterator[Delivery]:
        """Half-closes and reads to the end of the stream. What was delivered is paid for, so it is read.

        An error now ends it like the end does: all that was wanted had come.
        """
        await self.half_close()
        until = self._clock.monotonic() + REST_SECONDS
        while self._stream is not None:
            left = until - self._clock.monotonic()
            if left <= 0:
                logger.warning(
                    "The service did not end the stream within %.0f s; it is cancelled.",
                    REST_SECONDS,
                )
                break
            try:
                delivery = await self._heard(self._stream, left)
            except SfEventsError as error:
                if not isinstance(error, StreamEnded):
                    logger.info("The stream failed after the batch had ended: %s", error)
                break
            if delivery is not None:
                yield delivery
        await self.close()

    async def close(self) -> None:
        """Leaves nothing open."""
        stream, self._stream = self._stream, None
        self._outstanding = 0
        if stream is not None:
            await stream.close()

    def _wake(self, _: asyncio.Future[Any]) -> None:
        if self._stream is not None:
            self._stream.wake()

    async def _opened(self, timeout_seconds: float) -> EventStream | None:
        if not await self._waited(timeout_seconds):
            return None
        if self._renew:
            self._renew = False
            await self._source.renew()
        if self.losses:
            await self._source.reach()
        stream = await self._source.open(self._start)
        self._stream = stream
        self._open_at = self._heard_at = self._clock.monotonic()
        await self.ask_up_to(self._wanted)
        return stream

    async def _waited(self, timeout_seconds: float) -> bool:
        """Whether the time to open a stream has come; waits for it as long as the caller has time."""
        left = self._open_at - self._clock.monotonic()
        if left > 0:
            pause = min(left, timeout_seconds)
            if self._interrupt is None:
                await asyncio.sleep(pause)
            else:
                await asyncio.wait((self._interrupt,), timeout=pause)
        return left <= timeout_seconds and not (
            self._interrupt is not None and self._interrupt.done()
        )

    async def _heard(self, stream: EventStream, timeout_seconds: float) -> Delivery | None:
        listening_from = self._clock.monotonic()
        silence_left = self._heard_at + MAX_SILENCE_SECONDS - listening_from
        delivery = await stream.read(max(0.0, min(timeout_seconds, silence_left)))
        now = self._clock.monotonic()
        if delivery is None:
            if now >= self._heard_at + MAX_SILENCE_SECONDS:
                raise TransportError(
                    f"The stream has been silent for {MAX_SILENCE_SECONDS:.0f} s, longer than keepalives allow."
                )
            return None
        self._outstanding = credit.after_delivery(
            self._outstanding,
            delivered=len(delivery),
            reported=delivery.pending,
            waited_seconds=now - listening_from,
        )
        self._heard_at = now
        self._start = delivery.resume_after.hex() or self._start
        self._tries, self._renewed, self.failure = 0, False, None
        return delivery

    async def _lost(self, error: SfEventsError) -> None:
        """Prepares for the next stream. :raises SfEventsError: the error, when there shall be none."""
        self.losses += self._stream is not None
        await self.close()
        step = next_step(
            error, tries=self._tries, renewed=self._renewed, chance=self._clock.chance()
        )
        if step is None:
            raise error
        logger.info("The stream is lost (%s); another one in %.1f s.", error, step.wait_seconds)
        if self._start == LATEST:
            logger.warning(
                "Events published until then are missed: nothing was received yet to go on from."
            )
        self.failure = None if isinstance(error, StreamEnded) else error
        self._renew = step.renew
        self._renewed = self._renewed or step.renew
        self._tries += 0 if step.renew else 1
        self._open_at = self._clock.monotonic() + step.wait_seconds
