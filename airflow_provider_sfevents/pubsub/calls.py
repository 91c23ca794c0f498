"""RPCs with a session: the channel, the headers, renewal when the session is refused, another try where that helps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from airflow_provider_sfevents.proto.pubsub_api_pb2_grpc import PubSubStub
from airflow_provider_sfevents.pubsub.channel import metadata, open_channel
from airflow_provider_sfevents.pubsub.errors import from_rpc
from airflow_provider_sfevents.pubsub.reconnect import next_step
from airflow_provider_sfevents.pubsub.stream import Stream

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.pubsub.session_cache import SessionCache
    from airflow_provider_sfevents.pubsub.settings import Settings

# An answer takes a round trip; who waits longer is waiting for a connection that will not come.
ANSWER_SECONDS = 8.0
UNARY_TRIES = 3


class Calls:
    """Opens the channel with the first RPC, in the loop that makes it."""

    def __init__(
        self, settings: Settings, sessions: SessionCache, clock: Clock, answer_seconds: float
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None

    @property
    def endpoint(self) -> str:
        return self._settings.endpoint

    async def session(self) -> Session:
        return await self._sessions.get(self._settings, self._clock)

    async def renew(self, refused: Session) -> Session:
        return await self._sessions.renew(self._settings, refused, self._clock)

    async def unary(
        self, method: str, request: Any, doing: str, *, tries: int = UNARY_TRIES
    ) -> Any:
        """The answer. :param tries: how often a passing fault is tried; a refused session is renewed once besides.

        :raises SfEventsError: as the errors table says, within `answer_seconds`, logins not counted.
        """
        give_up_at: float | None = None
        failures, renewed = 0, False
        while True:
            session = await self.session()
            now = self._clock.monotonic()
            give_up_at = give_up_at or now + self._answer_seconds
            try:
                call = getattr(self._connected(), method)
                return await call(
                    request, timeout=max(0.1, give_up_at - now), metadata=metadata(session)
                )
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error, doing, session.token)
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
                await self.renew(session)
            renewed, failures = renewed or step.renew, failures + (not step.renew)
            await asyncio.sleep(step.wait_seconds)

    async def subscribe(self, topic: str, start: str, session: Session) -> Stream:
        call = self._connected().Subscribe(metadata=metadata(session))
        doing = f"Subscribing to {topic} at {self.endpoint}"
        return Stream(call, topic, start, doing=doing, secret=session.token, clock=self._clock)

    async def close(self) -> None:
        """Closes the channel, and with it whatever call is left on it."""
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    def _connected(self) -> Any:
        if self._channel is None:
            self._channel = open_channel(self._settings)
            self._stub = PubSubStub(self._channel)  # type: ignore[no-untyped-call]
        return self._stub
