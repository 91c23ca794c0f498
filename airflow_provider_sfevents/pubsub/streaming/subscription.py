"""Subscription that outlives its streams: it keeps the credit up and replaces lost streams.

No event is delivered to the caller twice: after a loss the next stream begins strictly after the
last replay id received, an event's or a keepalive's. The start is never changed for another reason:
a replay id that the bus refuses is an error.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import SfEventsError, TransportError
from airflow_provider_sfevents.pubsub.credit import Credit
from airflow_provider_sfevents.pubsub.reconnect import Retry, next_step
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import (
    StreamEndedError,
    SubscriptionStream,
)
from airflow_provider_sfevents.pubsub.streaming.wake_up import Interrupt
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.pubsub.timeouts import Timeouts

logger = logging.getLogger(__name__)


class StreamSource(Protocol):
    """Interface that opens the streams of a subscription."""

    @property
    def doing(self) -> str: ...

    async def reach(self) -> None:
        """Check that the service can be reached and the topic be read.

        :raises SfEventsError: it cannot.
        """

    async def open(self) -> SubscriptionStream: ...

    async def renew(self, why: SfEventsError) -> None:
        """Get a session other than that of the last stream, which was refused."""


class NextStep(Protocol):
    """Decision when a stream has ended or failed; as `reconnect.next_step`."""

    def __call__(
        self, error: SfEventsError, *, tries: int, renewed: bool, chance: float
    ) -> Retry | None: ...


class Subscription:
    """Opens nothing before the first `next`.

    :param interrupt: when it is done, `next` returns at once; a future of the loop this is used in.
    :param next_step: decides when another stream is opened.

    `losses` are the streams lost so far; `failure` is the last loss's error until a stream answers
    again.
    """

    def __init__(
        self,
        source: StreamSource,
        start: ReplayPoint,
        clock: Clock,
        interrupt: asyncio.Future[Any] | None = None,
        *,
        timeouts: Timeouts,
        next_step: NextStep = next_step,
    ) -> None:
        self._source = source
        self._start = start
        self._clock = clock
        self._interrupt = Interrupt(interrupt, self.wake)
        self._timeouts = timeouts
        self._next_step = next_step
        self._stream: SubscriptionStream | None = None
        self._credit = Credit()
        self._wanted = 0
        self._tries = 0
        self._renewed = False
        self._refusal: SfEventsError | None = None
        self._open_at = clock.monotonic()
        self._answered_at = self._open_at
        self._rpc_id = ""
        self._has_answered = False
        self.failure: SfEventsError | None = None
        self.losses = 0

    @property
    def is_open(self) -> bool:
        """True if a stream is open, as far as is known."""
        return self._stream is not None

    @property
    def outstanding(self) -> int:
        """Events requested on the open stream and not delivered yet."""
        return self._credit.outstanding

    @property
    def replay_point(self) -> ReplayPoint:
        """Replay point from which another stream would continue.

        The start, until something came.
        """
        return self._start

    def not_opened(self, seconds: float) -> TransportError:
        """Make the error for a stream that was not opened within so long."""
        return TransportError(
            f"{self._source.doing}: no stream could be opened within {seconds:.0f} s. Check login "
            "host, endpoint, network and proxy."
        )

    def listening_since(self, now: float) -> float:
        """Time since when the stream has been open.

        Without one, now: then silence means nothing.
        """
        return now if self._stream is None else self._open_at

    async def ask_up_to(self, wanted: int) -> None:
        """Raise the credit to so many events, when it is time to; it cannot be lowered."""
        self._wanted = wanted
        asking = self._credit.to_ask(wanted)
        if self._stream is not None and asking:
            self._credit = self._credit.asked(asking, self._clock.monotonic())
            await self._stream.ask(asking, self._start)

    async def next(
        self, timeout_seconds: float, opening_seconds: float | None = None
    ) -> Delivery | None:
        """The next delivery; None: nothing came in time, or a stream was lost or opened.

        :param opening_seconds: limit for opening a stream, waits before it included; default
            `timeout_seconds`.
        :raises SfEventsError: when another stream would not help.
        """
        if self._interrupt.is_set():
            await asyncio.sleep(0)  # lets other tasks run if the caller continues anyway
            return None
        try:
            if self._stream is not None:
                return await self._read(self._stream, timeout_seconds)
            await self._open_within(timeout_seconds if opening_seconds is None else opening_seconds)
        except SfEventsError as error:
            await self._lost(error)
        return None

    async def half_close(self) -> None:
        """End the requests; `rest` yields the deliveries that still come."""
        self._wanted = 0
        if self._stream is not None:
            await self._stream.half_close()

    async def rest(self) -> AsyncIterator[Delivery]:
        """Half-close and read to the end of the stream, because each delivery is paid for.

        An error now counts as the end: all wanted events had come. If nothing had come, it is a
        `failure`.
        """
        await self.half_close()
        until = self._clock.monotonic() + self._timeouts.rest_seconds
        while self._stream is not None:
            left = until - self._clock.monotonic()
            if left <= 0:
                logger.warning(
                    "The service did not end the stream within %.0f s; cancelling it.",
                    self._timeouts.rest_seconds,
                )
                break
            try:
                delivery = await self._read(self._stream, left)
            except SfEventsError as error:
                if not isinstance(error, StreamEndedError):
                    logger.info("The stream failed after the batch had ended: %s", error)
                    self.failure = None if self._has_answered else error
                break
            if delivery is not None:
                yield delivery
        await self.close()

    async def close(self) -> None:
        """Close the stream, if one is open."""
        stream, self._stream = self._stream, None
        self._credit = Credit()
        if stream is not None:
            await stream.close()

    def wake(self) -> None:
        """Let a `next` that listens return; one that opens a stream continues."""
        if self._stream is not None:
            self._stream.wake()

    async def _open_within(self, seconds: float) -> None:
        """Open a stream when its time has come; stop after so long, or when interrupted."""
        opening = asyncio.ensure_future(self._open())
        waiting: set[asyncio.Future[Any]] = {opening}
        if self._interrupt.future is not None:
            waiting.add(self._interrupt.future)
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait((opening,))
        if not opening.cancelled():
            opening.result()
            return
        await self.close()
        if self.failure is None and not self._interrupt.is_set():
            self.failure = self.not_opened(seconds)

    async def _open(self) -> None:
        await asyncio.sleep(self._open_at - self._clock.monotonic())
        if (refusal := self._refusal) is not None:
            self._refusal = None
            await self._source.renew(refusal)
        if self.losses:
            await self._source.reach()
        self._stream = await self._source.open()
        self._open_at = self._answered_at = self._clock.monotonic()
        self._has_answered = False
        await self.ask_up_to(self._wanted)

    async def _read(self, stream: SubscriptionStream, timeout_seconds: float) -> Delivery | None:
        listening_from = self._clock.monotonic()
        dead_at = self._answered_at + self._timeouts.silence_seconds
        delivery = await stream.read(max(0.0, min(timeout_seconds, dead_at - listening_from)))
        now = self._clock.monotonic()
        if delivery is None:
            if now >= dead_at:
                raise self._dead()
            return None
        self._credit = self._credit.delivered(
            len(delivery), reported=delivery.pending, waited_seconds=now - listening_from, at=now
        )
        self._answered_at, self._rpc_id, self._has_answered = now, delivery.rpc_id, True
        if delivery.resume_after:
            self._start = ReplayPoint.after(delivery.resume_after)
        self._tries, self._renewed, self.failure = 0, False, None
        return delivery

    def _dead(self) -> TransportError:
        label = f" (the last response had rpc id {self._rpc_id})" if self._rpc_id else ""
        silence = f"{self._timeouts.silence_seconds:.0f} s, longer than keepalives allow"
        return TransportError(
            f"{self._source.doing}: the stream has been silent for {silence}{label}. Check the "
            "network, and that no proxy holds answers back.",
            rpc_id=self._rpc_id,
        )

    async def _lost(self, error: SfEventsError) -> None:
        """Prepare for the next stream.

        :raises SfEventsError: the error, if there shall be none.
        """
        self.losses += self._stream is not None
        await self.close()
        step = self._next_step(
            error, tries=self._tries, renewed=self._renewed, chance=self._clock.chance()
        )
        if step is None:
            raise error
        logger.info(
            "The stream was lost (%s); opening another one in %.1f s.", error, step.wait_seconds
        )
        if self._start == LATEST:
            logger.warning(
                "Events published until then are missed: no replay id was received yet to continue "
                "from."
            )
        self.failure = None if isinstance(error, StreamEndedError) else error
        self._refusal = error if step.renew else None
        self._renewed = self._renewed or step.renew
        self._tries += 0 if step.renew else 1
        self._open_at = self._clock.monotonic() + step.wait_seconds
