"""Requests to one org's REST API with the connection's session, which is renewed once.

With retries.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self

import httpx

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.org_http import BearerAuth, open_http, unreachable
from airflow_provider_sfevents.pubsub.auth.session_cache import PROCESS_SESSIONS, SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.rest.rest_errors import SESSION_REFUSED, code_of, rest_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime
    from types import TracebackType

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings

API_VERSION = "60.0"
"""Version of the REST API; every org has it, and the resources in use have not changed since."""

ANSWER_SECONDS = 120.0
"""A query may take two minutes before its first record comes (SOQL's own limit)."""

TRIES = 3
_PAUSE_SECONDS = 2.0


class RestCalls:
    """Use as `async with RestCalls(settings) as rest:`.

    Every method raises `SfEventsError`s that name the thing, the org's reason, and the remedy.

    :param pause_seconds: before the second try of a request that failed for the moment; twice as
        long before the third.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        sessions: SessionCache = PROCESS_SESSIONS,
        clock: Clock | None = None,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._clock = clock or Clock()
        self._pause = pause_seconds
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def session(self) -> Session:
        return await self._sessions.get(self._settings, self._clock)

    async def get(
        self, path: str, doing: str, params: dict[str, str] | None = None
    ) -> tuple[Any, datetime]:
        """JSON of a resource, and the time of the answer by the org's clock.

        :param path: below `/services/data/vXX.0`, or complete if it begins with /services.
        :param doing: the purpose, as the beginning of a sentence for the user.
        """
        answer = await self._tried("GET", path, doing, params=params)
        return _json(answer.content, doing), org_time(answer)

    async def post(self, path: str, doing: str, body: dict[str, Any]) -> Any:
        """Create something. It is not tried again, because it might be created twice."""
        async with self.streamed("POST", path, doing, json=body) as answer:
            return _json(await answer.aread(), doing)

    async def delete(self, path: str, doing: str) -> None:
        await self._tried("DELETE", path, doing)

    @asynccontextmanager
    async def streamed(
        self, method: str, path: str, doing: str, **what: Any
    ) -> AsyncGenerator[httpx.Response]:
        """A successful answer, unread; an expired session is renewed once."""
        session = await self.session()
        try:
            async with self._sent(session, method, path, what) as answer:
                if not await _is_refused(answer):
                    await _check(answer, doing)
                    yield answer
                    return
            if isinstance(self._settings.login, SessionToken):
                raise AuthenticationError(
                    f"{doing}: {session.instance_url} does not take the session token. It cannot "
                    "be renewed here: give a fresh one, or use a login that renews itself."
                )
            session = await self._sessions.renew(self._settings, session, self._clock)
            async with self._sent(session, method, path, what) as answer:
                await _check(answer, doing)
                yield answer
        except httpx.HTTPError as error:
            raise unreachable(session.instance_url, error, self._settings.ca_file) from error

    async def pause(self, turn: int) -> None:
        """Wait before another try."""
        await asyncio.sleep(self._pause * 2**turn)

    async def _tried(self, method: str, path: str, doing: str, **what: Any) -> httpx.Response:
        for turn in range(TRIES - 1):
            try:
                return await self._whole(method, path, doing, what)
            except QuotaExceededError:
                raise
            except TransportError:
                await self.pause(turn)
        return await self._whole(method, path, doing, what)

    async def _whole(
        self, method: str, path: str, doing: str, what: dict[str, Any]
    ) -> httpx.Response:
        async with self.streamed(method, path, doing, **what) as answer:
            await answer.aread()
            return answer

    def _sent(self, session: Session, method: str, path: str, what: dict[str, Any]) -> Any:
        if self._http is None:
            seconds = self._settings.answer_seconds(ANSWER_SECONDS)
            self._http = open_http(self._settings, session.instance_url, seconds)
        whole = path if path.startswith("/services") else f"/services/data/v{API_VERSION}{path}"
        auth = BearerAuth(session.token)
        return self._http.stream(method, session.instance_url + whole, auth=auth, **what)


def org_time(answer: httpx.Response) -> datetime:
    """Time of an answer by the org's clock; whole seconds, aware.

    :raises TransportError: the answer has no time.
    """
    try:
        return parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError) as error:
        raise TransportError(
            f"{answer.request.url.host} answered without a time (header Date), so it is unknown "
            "which events an entity snapshot contains. Is there a proxy that removes it?"
        ) from error


async def _is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 401 and code_of(await answer.aread())[0] in {SESSION_REFUSED, ""}


async def _check(answer: httpx.Response, doing: str) -> None:
    if not answer.is_success:
        path = answer.request.url.path
        raise rest_error(doing, answer.status_code, await answer.aread(), path)


def _json(body: bytes, doing: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise TransportError(
            f"{doing}: the answer is not JSON, so it is not from the org's REST API: "
            f"{body[:100]!r}. Is there a proxy or a sign-on page between? Check the instance "
            "URL, then try again."
        ) from error
