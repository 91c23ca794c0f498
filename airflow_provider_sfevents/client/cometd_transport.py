"""Streaming API as a transport of the client: one session, polled by one task.

1. The session is polled when the events of the last answer have found room in the buffer.
2. `connection_timeout` counts from the last answer. An answer that the service holds back is
   missed after the session's own time for it, about two minutes, and only then counts as lost.
3. A channel whose replay id is refused, also when a lost session subscribes again, continues from
   `fallback`; without one, the client ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.client.connection_watch import ConnectionWatch
from airflow_provider_sfevents.client.transports import ending_error
from airflow_provider_sfevents.exceptions import (
    ReplayIdRefusedError,
    TransportTimeoutError,
)
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.streaming.streaming_session import StreamingSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.client.transports import MessageSink
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent

logger = logging.getLogger(__name__)

_NUMBER_DIGITS = 16
"""Most hex digits of a replay id of the Streaming API, which is a number of 64 bits."""

_NO_LIMIT = 1_000_000_000
"""Tries of the session; the connection timeout bounds them."""


class CometdTransport:
    """Subscriptions of the Streaming API that fill a sink; a `ClientTransport`.

    :param connection_timeout: seconds for a lost connection to come back; None: no limit.
    :param raw: add each message's JSON to it, as bytes.
    :param dumps: writes the JSON of messages.
    :param loads: reads it.
    """

    def __init__(
        self,
        settings: Settings,
        sink: MessageSink,
        *,
        connection_timeout: float | None,
        raw: bool,
        dumps: Callable[[Any], str],
        loads: Callable[[str], Any],
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._timeout = connection_timeout
        self._watch = self._new_watch()
        self._sink = sink
        self._raw = raw
        self._session = StreamingSession(
            settings,
            tries=_NO_LIMIT,
            clock=self._clock,
            pause=self._pause,
            dumps=dumps,
            loads=loads,
        )
        self._channels: dict[str, ReplayPoint | None] = {}  # with their fallbacks
        self._poll: asyncio.Task[None] | None = None

    async def subscribe(
        self, channel: str, start: ReplayPoint, fallback: ReplayPoint | None
    ) -> None:
        """Subscribe; returns when the service has confirmed it.

        :raises ReplayIdRefusedError: the service refuses the replay id, and there is no fallback.
        :raises SfEventsError: the user may not subscribe, or the service cannot be reached.
        """
        await self.unsubscribe(channel)
        if not self._channels:
            self._watch = self._new_watch()
        try:
            _check_number(channel, start)
            await self._session.subscribe(channel, start)
        except ReplayIdRefusedError as error:
            await self._subscribe_instead(channel, fallback, error)
        self._channels[channel] = fallback
        if self._poll is None:
            self._poll = asyncio.create_task(self._receive(), name="sfevents streaming")

    async def unsubscribe(self, channel: str) -> None:
        """End the subscription; messages that have been received stay in the buffer."""
        if channel in self._channels:
            del self._channels[channel]
            await self._session.unsubscribe(channel)

    async def close(self) -> None:
        poll, self._poll = self._poll, None
        if poll is not None:
            poll.cancel()
            with suppress(asyncio.CancelledError):
                await poll
        await self._session.close()

    async def _receive(self) -> None:
        """Poll until cancelled or until the sink has ended."""
        try:
            while True:
                try:
                    events = await self._session.receive()
                except ReplayIdRefusedError as error:
                    await self._fall_back(error)
                    continue
                self._watch.note(self._clock.monotonic(), is_connected=True)
                for event in events:
                    if not await self._sink.put(self._message(event)):
                        return
        except Exception as error:  # noqa: BLE001 - also one of the user's `loads`: it is raised by `receive`
            await self._sink.end(ending_error(error))

    async def _fall_back(self, error: ReplayIdRefusedError) -> None:
        """Subscribe from their fallbacks to the channels that the session has lost.

        :raises ReplayIdRefusedError: there is none.
        """
        lost = [one for one in self._channels if not self._session.wants(one)]
        if not lost:
            raise error
        for channel in lost:
            await self._subscribe_instead(channel, self._channels[channel], error)

    async def _subscribe_instead(
        self, channel: str, fallback: ReplayPoint | None, error: ReplayIdRefusedError
    ) -> None:
        if fallback is None:
            raise error
        logger.warning("%s Subscribing to %s from %s.", error, channel, fallback)
        await self._session.subscribe(channel, fallback)

    def _message(self, event: StreamedEvent) -> dict[str, Any]:
        data = dict(event.message["data"])
        if self._raw:
            data["raw"] = event.text.encode()
        return {**event.message, "channel": event.channel, "data": data}

    async def _pause(self, seconds: float) -> None:
        """Wait before another try, within the connection timeout.

        :raises TransportTimeoutError: the time is over.
        """
        now = self._clock.monotonic()
        self._watch.note(now, is_connected=False)
        if self._watch.is_over(now):
            said = str(self._session.trouble or "no answer").rstrip(".")
            raise TransportTimeoutError(
                f"The connection to the Streaming API was lost and did not come back within "
                f"{self._timeout:g} s ({said}). Open the client again; stored markers continue "
                "after the last message received."
            )
        await asyncio.sleep(min(seconds, self._watch.seconds_left(now)))

    def _new_watch(self) -> ConnectionWatch:
        return ConnectionWatch(self._timeout, self._clock.monotonic())


def _check_number(channel: str, start: ReplayPoint) -> None:
    if start.is_replay_id and len(start.text) > _NUMBER_DIGITS:
        raise ReplayIdRefusedError(
            f"The replay id {start} of {channel} is one of the Pub/Sub API, and the client reads "
            "the channel over the Streaming API, whose ids are numbers. Delete the marker, give "
            "replay_fallback, or read with transport='pubsub'."
        )
