"""Source of a topic's streams: opens each with the current session, and renews a refused one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.streaming.subscribe_call import SubscribeCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls

    LookUpTopic = Callable[[str], Awaitable[Any]]


class SessionSource:
    """Session of the last stream.

    :param look_up: requests the topic; raises if the service cannot be reached.
    """

    def __init__(self, calls: PubSubCalls, topic: str, look_up: LookUpTopic) -> None:
        self._calls = calls
        self._topic = topic
        self._look_up = look_up
        self._session: Session | None = None

    @property
    def doing(self) -> str:
        """Beginning of a sentence for errors: what is subscribed to, and where."""
        return f"Subscribing to {self._topic} at {self._calls.endpoint}"

    async def reach(self) -> None:
        await self._look_up(self._topic)

    async def renew(self, why: SfEventsError) -> None:
        if self._session is not None:
            await self._calls.renew(self._session, why)


class TopicStreamSource(SessionSource):
    """Subscribe streams of one topic."""

    async def open(self) -> SubscribeCall:
        self._session = await self._calls.session()
        return SubscribeCall(
            self._calls.stream("Subscribe", self._session),
            self._topic,
            doing=self.doing,
            secret=self._session.token,
            clock=self._calls.clock,
        )
