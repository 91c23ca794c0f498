"""RPCs with a session: headers, renewal of a refused session, retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from airflow_provider_sfevents.exceptions import AuthenticationError
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken
from airflow_provider_sfevents.pubsub.grpc_channels import (
    GrpcChannelPool,
    call_headers,
    open_channel,
)
from airflow_provider_sfevents.pubsub.reconnect import next_step
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
from airflow_provider_sfevents.pubsub.rpc_errors import from_rpc

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.timeouts import Timeouts

UNARY_TRIES = 3


class PubSubCalls:
    """RPCs of one client, which connects with the first RPC, in the loop of that RPC."""

    def __init__(
        self, settings: Settings, sessions: SessionCache, clock: Clock, timeouts: Timeouts
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._clock = clock
        self._timeouts = timeouts
        self._pool = GrpcChannelPool(lambda: open_channel(settings, timeouts))

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def endpoint(self) -> str:
        return self._settings.endpoint

    async def session(self) -> Session:
        return await self._sessions.get(self._settings, self._clock)

    async def session_with_user(self) -> Session:
        """The session, with the user that it acts as if the org reports it."""
        return await self._sessions.with_user(self._settings, self._clock)

    async def renew(self, refused: Session, why: SfEventsError) -> Session:
        """Log in again and return the new session.

        :param why: the refusal.
        :raises AuthenticationError: a session token cannot be renewed.
        """
        if isinstance(self._settings.login, SessionToken):
            raise AuthenticationError(
                f"{why} A session token cannot be renewed here: give a fresh one of the org at "
                f"{refused.instance_url} (org id {refused.org_id}), or use client credentials or "
                "JWT bearer, which renew themselves."
            )
        return await self._sessions.renew(self._settings, refused, self._clock)

    async def unary(
        self, method: str, request: Any, doing: str, *, tries: int = UNARY_TRIES
    ) -> Any:
        """Make a unary call and return its answer.

        :param doing: the beginning of a sentence for errors, such as "Looking up /event/Order__e".
        :param tries: attempts at a passing fault; a refused session is renewed once besides.
        :raises SfEventsError: by the code of the failure (`error_codes`), within
            `Timeouts.answer_seconds`, logins not counted.
        """
        give_up_at: float | None = None
        failures, renewed = 0, False
        while True:
            session = await self.session()
            now = self._clock.monotonic()
            give_up_at = give_up_at or now + self._timeouts.answer_seconds
            try:
                return await self._pool.unary(
                    method,
                    request,
                    timeout=max(0.1, give_up_at - now),
                    metadata=call_headers(session),
                )
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error, doing, session.token, rpc=method)
            step = next_step(
                failure,
                tries=failures,
                renewed=renewed,
                chance=self._clock.chance(),
                max_tries=tries,
            )
            if step is None or self._clock.monotonic() + step.wait_seconds >= give_up_at:
                raise failure
            if step.renew:
                await self.renew(session, failure)
            renewed, failures = renewed or step.renew, failures + (not step.renew)
            await asyncio.sleep(step.wait_seconds)

    def stream(self, method: str, session: Session) -> Any:
        """A call with messages both ways; the pool counts it as a stream until it is done."""
        return self._pool.stream(method, metadata=call_headers(session))

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def timeouts(self) -> Timeouts:
        return self._timeouts

    def rest(self) -> RestCalls:
        """REST calls with the same session, to be used with `async with`."""
        return RestCalls(self._settings, sessions=self._sessions, clock=self._clock)

    async def close(self) -> None:
        """Close the channels, which cancels the calls that are left."""
        await self._pool.close()
