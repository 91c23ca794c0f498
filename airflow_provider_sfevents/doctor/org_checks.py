"""Checks of an org by a connection, in the order of causes: a failed one explains those after it.

1. The login is a new one, so that the credentials are tried and not a session of this process.
2. No check publishes, requests an event or moves a position: topics are looked up, and REST is
   read.
3. All checks together have a limited time. A check that has no answer by then fails, and the ones
   after it are not checked.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from airflow_provider_sfevents.doctor import http_proxy, org_findings as lines
from airflow_provider_sfevents.doctor.findings import (
    CheckStatus,
    failed,
    failed_by,
    not_checked,
    ok,
)
from airflow_provider_sfevents.exceptions import ConfigurationError, SfEventsError, TopicError
from airflow_provider_sfevents.pubsub.auth.ca_file import read_ca_file
from airflow_provider_sfevents.pubsub.auth.oauth_errors import seconds_ahead
from airflow_provider_sfevents.pubsub.auth.org_http import open_http
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.rest.event_channels import (
    list_topics,
    read_members,
    read_selection,
)
from airflow_provider_sfevents.pubsub.rest.org_limits import read_limits
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
from airflow_provider_sfevents.pubsub.topic_names import (
    ALL_CHANGES,
    TopicKind,
    TransportName,
    channel_of,
    kind_of,
    topic_of,
    transport_for,
)
from airflow_provider_sfevents.streaming.streaming_session import StreamingSession
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.pubsub.auth.settings import Settings

CLOCK_SECONDS = 2.5
"""Time for the answer that has the org's clock; a host that is silent is the login's failure."""

_PUBLIC_PATH = "/services/data"
"""Resource that needs no login: the versions of the REST API."""

_PAUSE_SECONDS = 0.2
_UNEXPECTED = (
    "A proxy or gateway that answers in the org's place may be the cause. If there is none, it is "
    "a fault of this package: report it."
)
_NO_ANSWER = (
    "Is the way open to the login host and to the Pub/Sub API (port 7443 or 443, HTTP/2)? Check "
    "network, firewall and proxy."
)
_REMEDIES = {
    lines.CONNECTION: "Correct the field; docs/reference/connection.md has all of them.",
    lines.LOGIN: "docs/how-to/log-in.md has each login step by step.",
}
_BY_CODE = "docs/reference/errors.md has the errors by code."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """One check, and the earlier ones without which it says nothing."""

    name: str
    look: Callable[[], Awaitable[Finding]]
    needs: tuple[str, ...] = ()


class OrgChecks:
    """Checks of one connection; run once.

    :param settings: returns the connection's settings; called by the first check.
    :param topics: topics whose permission, selection and members are checked.
    :param followed: what positions follow, by the id of their org: further topics to check, except
        those of another org than the connection's. None: the positions are not known.
    :param seconds: time for all checks.
    :param environ: has the proxies' names.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        *,
        topics: Sequence[str] = (),
        followed: Mapping[str, lines.Followed] | None = None,
        seconds: float,
        clock: Clock | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._make_settings = settings
        self._topics = tuple(dict.fromkeys(topics))
        self._knows_positions = followed is not None
        self._of_other_orgs = dict(followed or {})
        self._followed = lines.Followed()
        self._seconds = seconds
        self._clock = clock or Clock()
        self._environ = environ
        self._stack = AsyncExitStack()
        self._selection: frozenset[str] | None = None
        self._org_id = ""

    async def run(self) -> list[Finding]:
        """Look, and return a line for each check."""
        until = monotonic() + self._seconds
        found: list[Finding] = []
        causes: dict[str, str] = {}  # by check without a result: the failed check behind it
        async with self._stack:
            for make in (self._org_checks, self._all_topic_checks):  # the second needs the org
                for check in make():
                    cause = next((causes[name] for name in check.needs if name in causes), "")
                    one = (
                        not_checked(check.name, f"`{cause}` has failed.")
                        if cause
                        else await self._look(check, until - monotonic())
                    )
                    found.append(one)
                    if cause or one.status is CheckStatus.FAILED:
                        causes[check.name] = cause or check.name
        return [
            *found,
            *(
                lines.other_org(topic, org_id, self._org_id)
                for org_id, followed in self._of_other_orgs.items()
                for topic in followed.topics
            ),
        ]

    async def _look(self, check: _Check, seconds: float) -> Finding:
        if seconds <= 0:
            return not_checked(check.name, f"The {self._seconds:g} s for all checks are over.")
        try:
            async with asyncio.timeout(seconds):
                return await check.look()
        except SfEventsError as error:
            return failed_by(check.name, error, _REMEDIES.get(check.name, _BY_CODE))
        except TimeoutError:
            seen = f"There was no answer within {self._seconds:g} s."
            return failed(check.name, seen, _NO_ANSWER)
        except Exception as error:  # noqa: BLE001 - the other checks still tell something
            # Its text may hold what must not be shown, such as a proxy's password.
            seen = f"The check ended by an unexpected error, {type(error).__name__}."
            return failed(check.name, seen, _UNEXPECTED)

    def _org_checks(self) -> list[_Check]:
        reached = (lines.CONNECTION, http_proxy.CHECKED)
        return [
            _Check(name=lines.CONNECTION, look=self._connection),
            _Check(name=http_proxy.CHECKED, look=self._proxy, needs=(lines.CONNECTION,)),
            _Check(name=lines.CLOCK, look=self._machine_clock, needs=reached),
            _Check(name=lines.LOGIN, look=self._login, needs=reached),
            _Check(name=lines.SCOPES, look=self._scopes, needs=(lines.LOGIN,)),
            _Check(name=lines.API, look=self._api, needs=(lines.LOGIN, lines.SCOPES)),
        ]

    def _all_topic_checks(self) -> list[_Check]:
        self._followed = self._of_other_orgs.pop(self._org_id, self._followed)
        self._topics = tuple(dict.fromkeys((*self._topics, *self._followed.topics)))
        needs = (lines.LOGIN, lines.SCOPES)
        # What says something of the whole org comes first: many topics may use up the time.
        found = [_Check(name=lines.ALLOWANCE, look=self._allowance, needs=needs)]
        if self._knows_positions:
            found.append(_Check(name=lines.UNFOLLOWED, look=self._unfollowed, needs=needs))
        return [*found, *(one for topic in self._topics for one in self._topic_checks(topic))]

    def _topic_checks(self, topic: str) -> list[_Check]:
        name = lines.topic_check(topic)
        if transport_for(topic) is TransportName.STREAMING:
            needs = (lines.LOGIN, lines.SCOPES)
            return [_Check(name=name, look=lambda: self._legacy_topic(topic), needs=needs)]
        found = [_Check(name=name, look=lambda: self._topic(topic), needs=(lines.API,))]
        if channel_of(topic) is not None:
            look = self._all_changes if topic == ALL_CHANGES else self._channel
            found.append(
                _Check(name=lines.channel_check(topic), look=lambda: look(topic), needs=(name,))
            )
        elif kind_of(topic) is TopicKind.CHANGES:
            found.append(
                _Check(
                    name=lines.selection_check(topic),
                    look=lambda: self._selected(topic),
                    needs=(name,),
                )
            )
        return found

    @property
    def _is_streaming(self) -> bool:
        """True if the connection reads by the Streaming API, and may have no way to the other."""
        return self._settings.transport == TransportName.STREAMING

    async def _connection(self) -> Finding:
        self._settings = self._make_settings()
        if self._settings.ca_file:
            read_ca_file(self._settings.ca_file)
        sessions = SessionCache()
        self._client = await self._stack.enter_async_context(
            PubSubClient(self._settings, sessions=sessions, clock=self._clock)
        )
        self._rest = await self._stack.enter_async_context(
            RestCalls(
                self._settings, sessions=sessions, clock=self._clock, pause_seconds=_PAUSE_SECONDS
            )
        )
        login = self._settings.login
        return ok(
            lines.CONNECTION,
            f"{type(login).__name__} at {login.login_url}, Pub/Sub API at "
            f"{self._settings.endpoint}.",
        )

    async def _proxy(self) -> Finding:
        login, api = http_proxy.routes_of(self._settings, self._environ)
        routes = [login] if self._is_streaming else [login, api]
        refusals = [await http_proxy.refusal(one) if one.proxy else "" for one in routes]
        unseen = api in routes and http_proxy.unseen_by_grpc(self._settings, self._environ)
        return http_proxy.proxy_finding(routes, refusals, is_unseen_by_grpc=unseen)

    async def _machine_clock(self) -> Finding:
        login = self._settings.login
        host = urlsplit(login.login_url).netloc
        seconds = min(CLOCK_SECONDS, self._seconds / 4)  # the login needs time, too
        try:
            async with (
                asyncio.timeout(seconds),
                open_http(self._settings, login.login_url, seconds) as http,
            ):
                answer = await http.get(login.login_url + _PUBLIC_PATH)
        except (httpx.HTTPError, TimeoutError):
            return not_checked(lines.CLOCK, f"{host} does not answer.")
        ahead = seconds_ahead(answer.headers.get("date", ""), self._clock.now())
        return lines.clock_finding(ahead, host, login)

    async def _login(self) -> Finding:
        session = await self._client.session()
        self._org_id = session.org_id
        return lines.login_finding(session, self._settings.login)

    async def _scopes(self) -> Finding:
        return lines.scopes_finding(await self._client.session())

    async def _api(self) -> Finding:
        if self._is_streaming:
            return await self._streaming_api()
        await self._client.check(self._seconds)
        return ok(lines.API, f"Pub/Sub API reached at {self._settings.endpoint}, over HTTP/2.")

    async def _streaming_api(self) -> Finding:
        async with StreamingSession(self._settings, tries=0, clock=self._clock) as session:
            await session.open()
        instance = (await self._client.session()).instance_url
        return ok(lines.API, f"Streaming API reached at {instance}, with a session of its own.")

    async def _legacy_topic(self, topic: str) -> Finding:
        async with StreamingTopicClient(self._settings, clock=self._clock) as client:
            await client.require_readable(topic)
        return ok(lines.topic_check(topic), "It is there, and the connection's user may read it.")

    async def _topic(self, topic: str) -> Finding:
        if self._is_streaming:
            return not_checked(
                lines.topic_check(topic), "The Streaming API tells when subscribing."
            )
        await self._client.require_readable(topic)
        return ok(lines.topic_check(topic), "The connection's user may subscribe.")

    async def _selected(self, topic: str) -> Finding:
        try:
            return lines.selection_finding(topic, await self._read_selection())
        except ConfigurationError as error:
            return lines.unread_setup(lines.selection_check(topic), str(error))

    async def _all_changes(self, topic: str) -> Finding:
        try:
            return lines.all_changes_finding(topic, await self._read_selection())
        except ConfigurationError as error:
            return lines.unread_setup(lines.channel_check(topic), str(error))

    async def _read_selection(self) -> frozenset[str]:
        if self._selection is None:
            self._selection = await read_selection(self._rest)
        return self._selection

    async def _channel(self, topic: str) -> Finding:
        try:
            members = await read_members(self._rest, channel_of(topic) or "")
        except ConfigurationError as error:
            return lines.unread_setup(lines.channel_check(topic), str(error))
        asked = () if self._is_streaming else members
        unreadable = [one.event for one in asked if not await self._is_readable(one.event)]
        return lines.channel_finding(topic, members, unreadable)

    async def _is_readable(self, event: str) -> bool:
        try:
            await self._client.require_readable(topic_of(event))
        except TopicError:
            return False
        return True

    async def _allowance(self) -> Finding:
        try:
            found = await read_limits(self._rest)
        except ConfigurationError as error:  # batches are fetched all the same
            return lines.unread_limits(error)
        by_hour = self._followed.events_by_hour
        return lines.allowance_finding(found, self._topics, by_hour)

    async def _unfollowed(self) -> Finding:
        offered, problem = await list_topics(self._rest)
        return lines.unfollowed_finding(offered, self._topics, problem)
