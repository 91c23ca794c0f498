"""Session of the Streaming API over HTTP: long polls, cookies, tokens; several channels on one.

The rules are in `bayeux_session` and `bayeux_errors`. This module sends what they say.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import httpx

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.org_http import BearerAuth, open_http, unreachable
from airflow_provider_sfevents.pubsub.auth.session_cache import PROCESS_SESSIONS, SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.streaming.bayeux_errors import BETWEEN, Failure, messages_of
from airflow_provider_sfevents.streaming.bayeux_messages import ALL_EVENTS, replay_value, split
from airflow_provider_sfevents.streaming.bayeux_session import BayeuxSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from types import TracebackType

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.streaming.bayeux_messages import Message, StreamedEvent

logger = logging.getLogger(__name__)

API_VERSION = "60.0"
"""Version in the path; from 47.0 on, change events are as the documentation has them."""

ANSWER_SECONDS = 30.0
"""Longest wait for an answer, in addition to the time for which the service holds a connect."""

DISCONNECT_SECONDS = 3.0
TRIES = 8
_LONGEST_PAUSE = 60.0


def pause_seconds(tries: int, chance: float) -> float:
    """Wait before the next try after so many failed ones: 1 s, 2 s, 4 s and so on, with jitter."""
    return min(_LONGEST_PAUSE, 2.0 ** min(tries, 10)) * (0.5 + chance / 2)


class StreamingSession:
    """Use as `async with StreamingSession(settings) as session:`.

    One task receives; others may subscribe meanwhile.

    :param settings: login and trust, as for the Pub/Sub API.
    :param tries: without a connect that works, before an error that could pass is raised.
    :param pause: waits so many seconds; default: as the clock does.
    :param http: makes the client for a host and a time limit.
    :param dumps: writes the JSON of a message.
    :param loads: reads the JSON of an event's message.
    :ivar trouble: the last failure, until a connect works again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        api_version: str = API_VERSION,
        tries: int = TRIES,
        sessions: SessionCache = PROCESS_SESSIONS,
        clock: Clock | None = None,
        pause: Callable[[float], Awaitable[Any]] | None = None,
        http: Callable[[Settings, str, float], httpx.AsyncClient] = open_http,
        dumps: Callable[[Any], str] = json.dumps,
        loads: Callable[[str], Any] = json.loads,
    ) -> None:
        self._settings = settings
        self._path = f"/cometd/{api_version}"
        self._tries = tries
        self._sessions = sessions
        self._clock = clock or Clock()
        self._pause = pause or self._clock.sleep
        self._open_http = http
        self._split = partial(split, dumps=dumps)
        self._loads = loads
        self._bayeux = BayeuxSession()
        self._login: Session | None = None
        self._has_renewed = False
        self._http: httpx.AsyncClient | None = None
        self._poll: asyncio.Task[tuple[str, httpx.Response]] | None = None
        self._kept: list[StreamedEvent] = []
        self._subscribed_at: dict[str, datetime | None] = {}
        self._lock = asyncio.Lock()
        self._failed = 0
        self._lost = 0  # sessions in a row that did not last
        self._answered_in = 0  # number of handshakes at the last connect that worked
        self.trouble: SfEventsError | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def handshakes(self) -> int:
        """Number of handshakes so far: of sessions that the service has begun for this one."""
        return self._bayeux.handshakes

    async def subscribe(self, channel: str, start: ReplayPoint) -> datetime | None:
        """Subscribe to a channel, which has one replay point in a session.

        :param channel: `/topic/Name`, also with a filter `?Field=value`; `/u/Name`, `/event/Name`,
            `/data/Name`.
        :returns: time of the successful answer by the org's clock, in whole seconds; None: the
            answer has no header Date.
        :raises ConfigurationError: the channel is subscribed to already.
        :raises TopicError: there is no such channel, or the user may not read it.
        :raises ReplayIdRefusedError: the service does not have the start any more.
        :raises SfEventsError: the service cannot be used.
        """
        if channel in self._bayeux.channels:
            raise ConfigurationError(
                f"{channel} is subscribed to in this session already, and a session has one replay "
                "point per channel. Unsubscribe first, or open another session."
            )
        self._bayeux.want(channel, replay_value(start))
        try:
            await self._ready()
        except BaseException:
            self._bayeux.forget(channel)
            raise
        return self._subscribed_at.get(channel)

    async def open(self) -> None:
        """Begin a session without a subscription, to see that the service can be used.

        :raises SfEventsError: it cannot.
        """
        await self._ready()

    def restart_from_earliest(self, channel: str) -> None:
        """Subscribe from the earliest event when the session has to be replaced before an event."""
        self._bayeux.channels[channel].replay = ALL_EVENTS

    def wants(self, channel: str) -> bool:
        """Return whether the session is subscribed to a channel, or will be."""
        return channel in self._bayeux.channels

    async def unsubscribe(self, channel: str) -> None:
        """End the subscription of a channel; harmless without one."""
        message = self._bayeux.to_unsubscribe(channel)
        if message is not None:
            with suppress(httpx.HTTPError, TransportError):  # a lost session has no subscriptions
                await self._request([message])

    async def receive(self) -> list[StreamedEvent]:
        """Wait for one answer of the service and return its events, possibly none.

        Nothing is asked of the service before this is called, so the caller sets the pace. If the
        caller is cancelled meanwhile, the next call has the answer.

        :raises SfEventsError: the service cannot be used, or a channel cannot be subscribed to
            again; or not for the moment, after several tries.
        """
        while True:
            await self._ready()
            if self._kept:
                break
            if self._poll is None:
                self._poll = asyncio.ensure_future(self._connect())
            try:
                client_id, answer = await asyncio.shield(self._poll)
            except httpx.HTTPError as error:
                self._poll = None
                # The lost answer's events are gone for this session, and come again on the next.
                self._bayeux.lose()
                await self._not_reached(error)
                continue
            self._poll = None
            is_of_session = client_id == self._bayeux.client_id
            events = self._taken(client_id, answer)
            self._kept += events
            if is_of_session and (events or self._bayeux.failure is None):
                self._note_success(lasts=bool(events))
            if self._kept or self._bayeux.failure is None:
                break
        events, self._kept = self._kept, []
        return events

    async def close(self) -> list[StreamedEvent]:
        """End the session, so that it does not count against the org's clients any more.

        :returns: events that the open poll has brought meanwhile.
        """
        poll, self._poll = self._poll, None
        try:
            if self._bayeux.client_id:
                await self._disconnect(poll)
        except (httpx.HTTPError, SfEventsError, TimeoutError) as error:
            logger.info("The session of the Streaming API ends by itself: %s", error)
        finally:
            self._bayeux.lose()
            if poll is not None and not poll.done():
                poll.cancel()
                await asyncio.wait((poll,))
            http, self._http = self._http, None
            if http is not None:
                await http.aclose()
        events, self._kept = self._kept, []
        return events

    async def _disconnect(self, poll: asyncio.Task[tuple[str, httpx.Response]] | None) -> None:
        async with asyncio.timeout(DISCONNECT_SECONDS):
            [body] = self._split([self._bayeux.to_disconnect()])
            await self._post(body)
            if poll is not None:
                self._kept += self._taken(*await poll)

    async def _ready(self) -> None:
        """See to it that there is a session with all subscriptions."""
        async with self._lock:
            while True:
                await self._mend()
                self._tell_missed()
                if not self._bayeux.client_id:
                    due = [self._bayeux.to_handshake()]
                elif not (due := self._bayeux.to_subscribe()):
                    break
                try:
                    await self._request(due)
                except httpx.HTTPError as error:
                    await self._not_reached(error)
            if refused := self._bayeux.refused_channel():
                raise refused.error

    def _tell_missed(self) -> None:
        channels, self._bayeux.missed = self._bayeux.missed, []
        for channel in channels:
            logger.warning(
                "Events of %s that are published until the next subscription are missed: none has "
                "come yet to continue from.",
                channel,
            )

    async def _mend(self) -> None:
        """Do what the last answer's failure asks for.

        :raises SfEventsError: the failure, if nothing helps.
        """
        failure, self._bayeux.failure = self._bayeux.failure, None
        if failure is None:
            return
        if failure.remedy == "fail":
            raise failure.error
        if failure.remedy == "log in":
            await self._log_in_again(failure.error)
            return
        self._failed += 1
        self._lost += failure.remedy == "handshake"
        self.trouble = failure.error
        if self._failed > self._tries:
            raise failure.error
        tries = max(self._failed, self._lost)
        logger.info("%s (try %d)", failure.error, tries)
        if failure.remedy == "wait" or tries > 1:
            await self._pause(pause_seconds(tries, self._clock.chance()))

    async def _log_in_again(self, error: SfEventsError) -> None:
        """Get another token, once until a connect has worked with it."""
        if isinstance(self._settings.login, SessionToken):
            raise AuthenticationError(
                f"{error} The session token cannot be renewed here: give a fresh one, or use a "
                "login that renews itself."
            ) from error
        if self._has_renewed or self._login is None:
            raise error
        self._has_renewed = True
        self._bayeux.lose()
        self._login = await self._sessions.renew(self._settings, self._login, self._clock)

    async def _not_reached(self, error: httpx.HTTPError) -> None:
        """Wait after a failure of the network.

        :raises SfEventsError: it has failed too often in a row.
        """
        self._failed += 1
        host = self._login.instance_url if self._login else "Salesforce"
        reason = unreachable(host, error, self._settings.ca_file)
        if self._failed > self._tries or not isinstance(reason, TransportError):
            raise reason from error
        self.trouble = reason
        logger.info("%s (try %d)", reason, self._failed)
        await self._pause(pause_seconds(self._failed, self._clock.chance()))

    async def _request(self, due: Sequence[Message]) -> None:
        """Send messages other than a connect, and take the answers."""
        client_id = self._bayeux.client_id
        for body in self._split(due):
            before = self._bayeux.subscribed
            answer = await self._post(body)
            self._kept += self._taken(client_id, answer)
            for channel in self._bayeux.subscribed - before:
                self._subscribed_at[channel] = _time_of(answer)
            if self._bayeux.failure is not None:
                return

    async def _connect(self) -> tuple[str, httpx.Response]:
        if self._bayeux.interval:
            await self._pause(self._bayeux.interval)
        client_id = self._bayeux.client_id
        [body] = self._split([self._bayeux.to_connect()])
        return client_id, await self._post(body, self._bayeux.poll_seconds)

    def _taken(self, client_id: str, answer: httpx.Response) -> list[StreamedEvent]:
        """Events of an answer; what else it says is in the state afterwards."""
        told = messages_of(answer.status_code, answer.text, self._loads)
        if isinstance(told, Failure):
            if answer.is_success or answer.status_code in BETWEEN:
                # Events that the answer had are gone for this session, and come again on the next.
                self._bayeux.lose()
            self._bayeux.failure = told
            return []
        events = self._bayeux.take(told, client_id)
        for event in events:
            self._bayeux.given(event)
        return events

    def _note_success(self, *, lasts: bool) -> None:
        """Forget earlier failures. Only a connect shows that events can come.

        A proxy may pass handshakes and subscriptions on, and send each connect to another server.

        :param lasts: an event shows that sessions last, and so does the second connect of one: the
            service answers the first at once.
        """
        self._failed, self._has_renewed, self.trouble = 0, False, None
        if lasts or self._answered_in == self.handshakes:
            self._lost = 0
        self._answered_in = self.handshakes

    async def _post(self, body: bytes, held_seconds: float = 0.0) -> httpx.Response:
        """Send a request; the service may hold it for some time."""
        if self._login is None:
            self._login = await self._sessions.get(self._settings, self._clock)
        login = self._login
        seconds = self._settings.answer_seconds(ANSWER_SECONDS)
        if self._http is None:
            self._http = self._open_http(self._settings, login.instance_url, seconds)
        return await self._http.post(
            login.instance_url + self._path,
            content=body,
            headers={"Content-Type": "application/json"},
            auth=BearerAuth(login.token),
            timeout=httpx.Timeout(seconds, read=held_seconds + seconds),
        )


def _time_of(answer: httpx.Response) -> datetime | None:
    try:
        return parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):
        return None
