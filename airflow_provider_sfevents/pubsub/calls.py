"""RPCs with a session: the headers, renewal when the session is refused, another try where that helps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from airflow_provider_sfevents.exceptions import AuthenticationError
from airflow_provider_sfevents.pubsub.channel import metadata, open_channel
from airflow_provider_sfevents.pubsub.channel_pool import ChannelPool
from airflow_provider_sfevents.pubsub.errors import from_rpc
from airflow_provider_sfevents.pubsub.managed_stream import ManagedStream
from airflow_provider_sfevents.pubsub.reconnect import next_step
from airflow_provider_sfevents.pubsub.rest.calls import RestCalls
from airflow_provider_sfevents.pubsub.settings import SessionToken
from airflow_provider_sfevents.pubsub.stream import Exchange, Stream

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.patience import Patience
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.pubsub.session_cache import SessionCache
    from airflow_provider_sfevents.pubsub.settings import Settings

UNARY_TRIES = 3


class Calls:
    """Connects with the first RPC, in the loop that makes it."""

    def __init__(
        self, settings: Settings, sessions: SessionCache, clock: Clock, patience: Patience
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._clock = clock
        self._patience = patience
        self._pool = ChannelPool(lambda: open_channel(settings, patience))

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def endpoint(self) -> str:
        return self._settings.endpoint

    async def session(self) -> Session:
        return await self._sessions.get(self._settings, self._clock)

    async def session_with_user(self) -> Session:
        """The session, with the user that it acts as if the org tells."""
        return await self._sessions.with_user(self._settings, self._clock)

    async def renew(self, refused: Session, why: SfEventsError) -> Session:
        """Another session. :param why: the refusal. :raises AuthenticationError: when the connection has nothing to log in with."""
        if isinstance(self._settings.login, SessionToken):
            raise AuthenticationError(
                f"{why} A session token cannot be renewed here: give a fresh one of the org at {refused.instance_url} (org id {refused.org_id}), or use "
                "client credentials or JWT bearer, which renew themselves."
            )
        return await self._sessions.renew(self._settings, refused, self._clock)

    async def unary(
        self, method: str, request: Any, doing: str, *, tries: int = UNARY_TRIES
    ) -> Any:
        """The answer. :param tries: how often a passing fault is tried; a refused session is renewed once besides.

        :raises SfEventsError: as the errors table says, within the patience for an answer, logins not counted.
        """
        give_up_at: float | None = None
        failures, renewed = 0, False
        while True:
            session = await self.session()
            now = self._clock.monotonic()
            give_up_at = give_up_at or now + self._patience.answer_seconds
            try:
                return await self._pool.unary(
                    method,
                    request,
                    timeout=max(0.1, give_up_at - now),
                    metadata=metadata(session),
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

    async def subscribe(self, topic: str, start: str, session: Session) -> Stream:
        call = self._pool.stream("Subscribe", metadata=metadata(session))
        doing = f"Subscribing to {topic} at {self.endpoint}"
        return Stream(call, topic, start, doing=doing, secret=session.token, clock=self._clock)

    def exchange(self, method: str, doing: str, session: Session) -> Exchange:
        """A call of this method with messages both ways. :param doing: as for `unary`."""
        call = self._pool.stream(method, metadata=metadata(session))
        return Exchange(call, doing=doing, secret=session.token, clock=self._clock)

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def patience(self) -> Patience:
        return self._patience

    def rest(self) -> RestCalls:
        """REST calls with the same session, to be used with `async with`."""
        return RestCalls(self._settings, sessions=self._sessions, clock=self._clock)

    async def managed_subscribe(self, reference: str, session: Session) -> ManagedStream:
        call = self._pool.stream("ManagedSubscribe", metadata=metadata(session))
        doing = f"Subscribing to managed subscription {reference} at {self.endpoint}"
        return ManagedStream(call, reference, doing=doing, secret=session.token, clock=self._clock)

    async def close(self) -> None:
        """Closes the channels, and with them whatever call is left on them."""
        await self._pool.close()
