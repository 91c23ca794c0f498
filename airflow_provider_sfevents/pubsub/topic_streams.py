"""Where subscriptions get their streams from: each with the session of the moment, and another one where that was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.calls import Calls
    from airflow_provider_sfevents.pubsub.managed_stream import ManagedStream
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.pubsub.stream import Stream

    Reach = Callable[[str], Awaitable[Any]]


class _Sessions:
    """:param look_up: asks for the topic; raises where the service cannot be reached."""

    def __init__(self, calls: Calls, topic: str, look_up: Reach) -> None:
        self._calls = calls
        self._topic = topic
        self._look_up = look_up
        self._session: Session | None = None

    async def reach(self) -> None:
        await self._look_up(self._topic)

    async def renew(self, why: SfEventsError) -> None:
        if self._session is not None:
            await self._calls.renew(self._session, why)


class TopicStreams(_Sessions):
    """Streams of one topic."""

    async def open(self, start: str) -> Stream:
        self._session = await self._calls.session()
        return await self._calls.subscribe(self._topic, start, self._session)


class ManagedStreams(_Sessions):
    """Streams of one managed subscription; `current` is the last one opened."""

    def __init__(self, calls: Calls, topic: str, look_up: Reach, reference: str) -> None:
        super().__init__(calls, topic, look_up)
        self._reference = reference
        self.current: ManagedStream | None = None

    async def open(self, start: str) -> ManagedStream:  # noqa: ARG002 - the service knows where
        self._session = await self._calls.session()
        self.current = await self._calls.managed_subscribe(self._reference, self._session)
        return self.current
