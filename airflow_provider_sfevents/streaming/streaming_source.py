"""Subscription of one topic over the Streaming API, as a `DeliverySource` of a fetch.

1. Nothing is asked of the service before `next`: `/meta/connect` is only sent while the batch has
   room. What an answer brings beyond it is handed over, and the fetch keeps it for the next batch.
2. At the end the session is closed while the poll is open; events that came meanwhile are the
   `rest`. A session that is not closed counts against the org's clients for a while.
3. An answer without an event proves that none came until then, but for the first one of a session.
   It counts as a keepalive with the replay id of the last event. So does the end of the session,
   but only if the topic was subscribed to and the service answered until then.
4. While others wait for a session, this one is given up after some seconds without an event, and
   the topic is subscribed to again, after the last event, when it is its turn.
5. At `latest` the subscription's own time is told, once. From then on a session that is lost begins
   at `earliest`, and events that were created before are passed over.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    ReplayIdRefusedError,
    SfEventsError,
)
from airflow_provider_sfevents.pubsub.streaming.delivery import from_messages
from airflow_provider_sfevents.pubsub.topic_names import least_retention
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from airflow_provider_sfevents.streaming.message_columns import created_at
from airflow_provider_sfevents.streaming.session_slots import TURN_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import OnKeepalive
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery, ReceivedMessage
    from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent
    from airflow_provider_sfevents.streaming.session_slots import SessionSlots
    from airflow_provider_sfevents.streaming.streaming_session import StreamingSession


_MARGIN = timedelta(minutes=10)
"""For clocks that differ, and a connection that is lost some time before it is noticed."""

logger = logging.getLogger(__name__)


class StreamingSource:
    """Use for one fetch; it opens nothing before the first `next`.

    :param columns: makes the staged columns of events.
    :param on_time: awaited with the text of the replay point that `latest` stands for.
    :param listened_at: time up to which an earlier subscription has shown that no event followed
        `start`; None: unknown.
    :param passed_over: called with the number of events so far that were created before the time at
        which the batch starts.
    :param slots: of the org's sessions.
    """

    def __init__(
        self,
        open_session: Callable[[], StreamingSession],
        topic: str,
        start: ReplayPoint,
        clock: Clock,
        interrupt: asyncio.Future[Any] | None,
        *,
        columns: Callable[[Sequence[StreamedEvent]], Awaitable[list[ReceivedMessage]]],
        on_time: OnKeepalive | None = None,
        listened_at: datetime | None = None,
        passed_over: Callable[[int], None] | None = None,
        slots: SessionSlots,
    ) -> None:
        self._open_session = open_session
        self._session = open_session()
        self._slots = slots
        self._has_slot = False
        self._turn_ends = 0.0
        self._topic = topic
        self._start = start
        self._not_before = start.not_before
        self._clock = clock
        self._interrupt = interrupt
        self._columns = columns
        self._on_time = on_time
        self._listened_at = listened_at
        self._latest = bytes.fromhex(start.to_text()) if start.is_replay_id else b""
        self._since: float | None = None
        self._answered_in = 0  # number of handshakes when the service last answered
        self._work: asyncio.Task[Delivery] | None = None
        self._has_closed = False
        self._on_passed_over = passed_over
        self._passed_over = 0

    @property
    def failure(self) -> SfEventsError | None:
        """The last failure, until a connect works again."""
        return self._session.trouble

    @property
    def losses(self) -> int:
        """Number of sessions that were lost and replaced."""
        return max(0, self._session.handshakes - 1)

    def listening_since(self, now: float) -> float:
        """Time since when the topic has been subscribed to; without a subscription, now."""
        return self._since if self._since is not None and self._is_listening else now

    @property
    def _is_listening(self) -> bool:
        """True if the topic is subscribed to, and the service has answered the last request."""
        return self._since is not None and self._session.trouble is None

    async def ask_up_to(self, wanted: int) -> None:
        """Do nothing: the service is asked by `next`, and decides itself how much it sends."""

    async def half_close(self) -> None:
        """Do nothing: `rest` ends the session."""

    async def next(
        self, timeout_seconds: float, opening_seconds: float | None = None
    ) -> Delivery | None:
        """Return the next answer; None: none came in time, or the fetch was interrupted.

        :param opening_seconds: limit for subscribing; default `timeout_seconds`.
        :raises SfEventsError: the service refuses the subscription, or cannot be used.
        """
        if self._interrupt is not None and self._interrupt.done():
            await asyncio.sleep(0)
            return None
        seconds = timeout_seconds
        if self._since is None and opening_seconds is not None:
            seconds = opening_seconds
        if self._work is None:
            self._work = asyncio.ensure_future(self._receive())
        waited_for = {self._work, *([self._interrupt] if self._interrupt is not None else [])}
        await asyncio.wait(waited_for, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._work.done():
            return None
        work, self._work = self._work, None
        return work.result()

    async def rest(self) -> AsyncIterator[Delivery]:
        """End the session; yield the deliveries that it received until then.

        If they hold no event, none came, unless the session had trouble.
        """
        work, self._work = self._work, None
        if work is not None and work.done() and not work.exception():
            yield work.result()
            work = None
        has_failed = work is not None and work.done()
        is_listening = self._is_listening and not has_failed
        yield await self._delivery(await self._ended(work), is_keepalive=is_listening)

    async def close(self) -> None:
        """End the session, if `rest` has not."""
        work, self._work = self._work, None
        await self._ended(work)

    async def _ended(self, work: asyncio.Task[Delivery] | None) -> list[StreamedEvent]:
        if work is not None and not work.done():
            work.cancel()
            await asyncio.wait((work,))
        if self._has_closed:
            return []
        self._has_closed = True
        return await self._leave()

    async def _leave(self) -> list[StreamedEvent]:
        """End the session and give its slot back; returns events that came meanwhile."""
        try:
            return await self._session.close()
        finally:
            if self._has_slot:
                self._has_slot = False
                self._slots.give()

    async def _receive(self) -> Delivery:
        if self._since is None:
            await self._begin()
        events = await self._answer()
        if events is None:
            return await self._pass_on()
        now = self._clock.monotonic()
        if self._session.trouble is None and self.losses:
            self._since = max(self._since or now, now - 1.0)
        handshakes = self._session.handshakes
        # The service answers the first connect of a session at once, whether or not events follow.
        says_none = not events and handshakes == self._answered_in
        self._answered_in = handshakes
        if events:
            self._turn_ends = now + TURN_SECONDS
        return await self._delivery(
            events, is_idle=says_none, is_keepalive=bool(events) or says_none
        )

    async def _begin(self) -> None:
        """Subscribe, when there is a slot for the session."""
        if not self._has_slot:
            await self._slots.take()
            self._has_slot = True
        await self._subscribe()
        self._since = self._clock.monotonic()
        self._turn_ends = self._since + TURN_SECONDS

    async def _answer(self) -> list[StreamedEvent] | None:
        """Wait for the next answer; None: the turn is over, and others wait for a session."""
        receiving = asyncio.ensure_future(self._session.receive())
        try:
            while not receiving.done():
                left = self._turn_ends - self._clock.monotonic()
                if left <= 0 and self._slots.is_contended:
                    return None
                await asyncio.wait((receiving,), timeout=left if left > 0 else TURN_SECONDS)
            return receiving.result()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _pass_on(self) -> Delivery:
        """Leave the session to another wait; the next `next` takes another one."""
        is_listening, self._since = self._is_listening, None
        events = await self._leave()
        trouble = self._session.trouble
        self._session, self._answered_in = self._open_session(), 0
        self._session.trouble = trouble
        return await self._delivery(events, is_keepalive=is_listening)

    async def _subscribe(self) -> None:
        """Subscribe; at `latest`, tell the time for which it stands.

        :raises ReplayIdRefusedError: the service has no such replay id, and events may be lost.
        :raises ConfigurationError: `latest` has no time.
        """
        start = EARLIEST if self._not_before is not None else self._start
        if self._latest:
            start = ReplayPoint.after(self._latest)
        try:
            at = await self._session.subscribe(self._topic, start)
        except ReplayIdRefusedError as refused:
            if not self._is_quiet():
                raise
            logger.info(
                "%s No event of %s had come after it until %s, so nothing is lost: continuing with "
                "all events that Salesforce still has.",
                refused,
                self._topic,
                self._listened_at,
            )
            await self._session.subscribe(self._topic, EARLIEST)
            return
        if start != LATEST:
            return
        if at is None:
            raise ConfigurationError(
                f"'latest' of {self._topic} has no time: the answer to the subscription has no "
                "header Date. Is there a proxy that removes it? Start at 'earliest' instead."
            )
        self._not_before = at
        self._session.restart_from_earliest(self._topic)
        if self._on_time is not None:
            await self._on_time(ReplayPoint.since(at).to_text())

    def _is_quiet(self) -> bool:
        """Return whether nothing can have been lost since a refused replay id.

        Every event that was published after the last subscription is still kept.
        """
        if self._listened_at is None or not self._start.is_replay_id:
            return False
        kept_for = least_retention(self._topic) - _MARGIN
        return self._clock.now() - self._listened_at < kept_for

    async def _delivery(
        self, events: Sequence[StreamedEvent], *, is_idle: bool = False, is_keepalive: bool = True
    ) -> Delivery:
        messages = await self._columns([one for one in events if self._counts(one)])
        if messages:
            self._latest = messages[-1].replay_id
        return from_messages(
            messages,
            received_at=int(self._clock.now().timestamp() * 1_000_000),
            latest_replay_id=self._latest if is_keepalive else b"",
            is_idle=is_idle,
        )

    def _counts(self, event: StreamedEvent) -> bool:
        created = created_at(event.message) if self._not_before is not None else None
        if created is None or self._not_before is None or created >= self._not_before:
            return True
        self._passed_over += 1
        if self._on_passed_over is not None:
            self._on_passed_over(self._passed_over)
        return False
