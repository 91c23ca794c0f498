"""Pub/Sub API as a transport of the client: a subscription and a task for each channel.

1. Credit is requested when earlier messages have found room in the buffer. So each channel has at
   most `max_credit` events on the way, beside the messages in the buffer.
2. A lost stream is replaced from the last event received. `connection_timeout` counts from the
   loss, and ends the client.
3. The API refuses a replay id in the answer to a subscription, and otherwise answers with the next
   event or keepalive. So `subscribe` waits a moment for a refusal. After a refusal, also a later
   one, the channel continues from `fallback`; without one, or if that is refused, too, the client
   ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.client.connection_watch import NO_LIMIT_SECONDS, ConnectionWatch
from airflow_provider_sfevents.client.pubsub_messages import MessageMaker
from airflow_provider_sfevents.client.transports import ending_error
from airflow_provider_sfevents.exceptions import (
    ReplayIdRefusedError,
    SfEventsError,
    TransportTimeoutError,
)
from airflow_provider_sfevents.pubsub.auth.session_cache import PROCESS_SESSIONS, SessionCache
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.credit import MAX_CREDIT
from airflow_provider_sfevents.pubsub.timeouts import Timeouts

if TYPE_CHECKING:
    from airflow_provider_sfevents.client.transports import MessageSink
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription
    from airflow_provider_sfevents.replay_point import ReplayPoint

logger = logging.getLogger(__name__)

_REPLAY_ID_DIGITS = 16
"""Fewest hex digits of a replay id of the Pub/Sub API, which has 8 bytes or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubOptions:
    """Options of the transport.

    :param connection_timeout: seconds for a lost connection to come back; None: no limit.
    :param max_pending: most messages in the client's buffer; None: no limit.
    :param raw: add the payload's bytes to each message.
    :param refusal_seconds: that `subscribe` waits for a replay id to be refused.
    """

    connection_timeout: float | None = 10.0
    max_pending: int | None = 100
    raw: bool = False
    refusal_seconds: float = 2.0

    @property
    def max_credit(self) -> int:
        return MAX_CREDIT if self.max_pending is None else min(MAX_CREDIT, self.max_pending)


class PubSubTransport:
    """Subscriptions of the Pub/Sub API that fill a sink; a `ClientTransport`."""

    def __init__(
        self,
        settings: Settings,
        sink: MessageSink,
        options: PubSubOptions,
        *,
        sessions: SessionCache = PROCESS_SESSIONS,
        clock: Clock | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
    ) -> None:
        self._clock = clock or Clock()
        self._client = PubSubClient(
            settings, sessions=sessions, clock=self._clock, timeouts=timeouts
        )
        self._sink = sink
        self._options = options
        self._maker = MessageMaker(self._client.get_schema, raw=options.raw)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: asyncio.Future[None] | None = None

    @property
    def client(self) -> PubSubClient:
        """The client that the transport uses, for publishing."""
        return self._client

    async def subscribe(
        self, channel: str, start: ReplayPoint, fallback: ReplayPoint | None
    ) -> None:
        """Subscribe; returns when a stream is open and the first events are requested.

        :raises ReplayIdRefusedError: the service refuses the replay id, and there is no fallback.
        :raises SfEventsError: the user may not subscribe, or the service cannot be reached.
        """
        await self.unsubscribe(channel)
        opened, answered = asyncio.Event(), asyncio.Event()
        following = self._follow(channel, start, fallback, opened, answered)
        task = asyncio.create_task(following, name=f"sfevents {channel}")
        try:
            await _first(task, opened, None)
            if start.is_replay_id:
                await _first(task, answered, self._options.refusal_seconds)
                await _first(task, opened, None)
        except BaseException:
            await _cancel(task)
            raise
        task.add_done_callback(self._ended)
        self._tasks[channel] = task

    async def unsubscribe(self, channel: str) -> None:
        """Close the channel's stream; messages that have been received stay in the buffer."""
        task = self._tasks.pop(channel, None)
        if task is not None:
            await _cancel(task)

    async def close(self) -> None:
        for channel in list(self._tasks):
            await self.unsubscribe(channel)
        await self._client.__aexit__(None, None, None)

    async def _follow(
        self,
        channel: str,
        start: ReplayPoint,
        fallback: ReplayPoint | None,
        opened: asyncio.Event,
        answered: asyncio.Event,
    ) -> None:
        """Read a channel into the sink, from `fallback` once a replay id is refused.

        :param opened: set once a stream is open; cleared when `fallback` becomes the start.
        :param answered: set once the replay id was taken, or was refused and `fallback` counts.
        """
        try:
            await self._pump(channel, start, opened, answered)
        except ReplayIdRefusedError as error:
            if fallback is None:
                raise
            logger.warning("%s Subscribing to %s from %s.", error, channel, fallback)
            opened.clear()
            answered.set()
            await self._pump(channel, fallback, opened, answered)

    async def _pump(
        self,
        channel: str,
        start: ReplayPoint,
        opened: asyncio.Event,
        answered: asyncio.Event,
    ) -> None:
        """Read deliveries into the sink until the task is cancelled or the sink has ended."""
        _check_start(channel, start)
        subscription = await self._client.outlasting(channel, start)
        watch = ConnectionWatch(self._options.connection_timeout, self._clock.monotonic())
        try:
            while True:
                await subscription.ask_up_to(self._options.max_credit)
                left = watch.seconds_left(self._clock.monotonic())
                delivery = await subscription.next(NO_LIMIT_SECONDS, left)
                if subscription.is_open:
                    opened.set()
                if delivery is not None:
                    answered.set()
                    async for message in self._maker.messages(channel, delivery):
                        if not await self._sink.put(message):
                            return
                now = self._clock.monotonic()
                watch.note(now, is_connected=subscription.is_open)
                if watch.is_over(now):
                    raise self._not_back(channel, subscription)
        finally:
            await subscription.close()

    def _not_back(self, channel: str, subscription: Subscription) -> TransportTimeoutError:
        said = str(subscription.failure or "no stream could be opened").rstrip(".")
        return TransportTimeoutError(
            f"The connection of {channel} was lost and did not come back within "
            f"{self._options.connection_timeout:g} s ({said}). Open the client again; stored "
            "markers continue after the last message received."
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the sink when a subscription has failed."""
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._ending = asyncio.ensure_future(self._sink.end(ending_error(error)))


async def _first(task: asyncio.Task[None], event: asyncio.Event, seconds: float | None) -> None:
    """Wait until the event is set, the task ends or the time is over.

    :raises SfEventsError: the task has failed.
    """
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, waiting), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if task.done():
        task.result()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, SfEventsError):
        await task


def _check_start(channel: str, start: ReplayPoint) -> None:
    if start.is_replay_id and len(start.text) < _REPLAY_ID_DIGITS:
        raise ReplayIdRefusedError(
            f"The replay id {start} of {channel} is one of the Streaming API, and the client reads "
            "the channel over the Pub/Sub API, whose ids differ. Delete the marker, give "
            "replay_fallback, or read with transport='streaming'."
        )
