"""State of a Bayeux session: what to send next, and what an answer changes. No I/O, no clock.

1. Handshake, then the subscriptions, then connect after connect. The answer to a handshake has no
   advice, which is normal.
2. A session is lost when the service does not know the client any more, or advises a handshake.
   Then all subscriptions are gone: each is made again after the last event that came on it, or from
   its start if none did.
3. The last event is the last one that the caller was given. Salesforce sends what followed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_sfevents.streaming import bayeux_messages as messages
from airflow_provider_sfevents.streaming.bayeux_errors import (
    Failure,
    advised,
    ended_by_advice,
    failure_of,
    is_refused,
)
from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent, event_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_sfevents.streaming.bayeux_messages import Message

POLL_SECONDS = 110.0
"""Time for which the service holds a connect without events, unless it advises another."""


@dataclass(slots=True)
class ChannelState:
    """A channel that the caller wants.

    :param replay: value of the replay extension with which it is subscribed to next.
    :param is_subscribed: in the present session.
    :param failure: of its last subscribe.
    """

    replay: int
    is_subscribed: bool = False
    failure: Failure | None = None


@dataclass(slots=True)
class BayeuxSession:
    """One session and the channels on it; a lost session is followed by another of the same object.

    :ivar client_id: empty: a handshake is due.
    :ivar interval: seconds to wait before the next connect.
    :ivar poll_seconds: time for which the service may hold a connect.
    :ivar failure: of the last answer, if it was about the session.
    :ivar missed: channels from `latest` that lost a session before their first event. What is
        published until the next subscription is missed there.
    :ivar handshakes: that succeeded.
    """

    channels: dict[str, ChannelState] = field(default_factory=dict)
    client_id: str = ""
    interval: float = 0.0
    poll_seconds: float = POLL_SECONDS
    failure: Failure | None = None
    missed: list[str] = field(default_factory=list)
    handshakes: int = 0
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def want(self, channel: str, replay: int) -> None:
        """Subscribe to a channel; does nothing if it is wanted already."""
        self.channels.setdefault(channel, ChannelState(replay))

    def to_subscribe(self) -> list[Message]:
        """Subscribes that are due."""
        return [
            self._numbered(messages.subscribe(self.client_id, name, one.replay))
            for name, one in self.channels.items()
            if not one.is_subscribed and one.failure is None
        ]

    @property
    def subscribed(self) -> frozenset[str]:
        """Channels with a subscription in the current session."""
        return frozenset(name for name, one in self.channels.items() if one.is_subscribed)

    def refused_channel(self) -> Failure | None:
        """Remove the first channel whose subscription failed, and return its failure."""
        for name, one in tuple(self.channels.items()):
            if one.failure is not None:
                del self.channels[name]
                return one.failure
        return None

    def forget(self, channel: str) -> None:
        """Want a channel no more, without telling the service."""
        self.channels.pop(channel, None)

    def to_handshake(self) -> Message:
        return self._numbered(messages.handshake())

    def to_connect(self) -> Message:
        return self._numbered(messages.connect(self.client_id))

    def to_unsubscribe(self, channel: str) -> Message | None:
        """The message that ends a subscription; None: the session has none."""
        one = self.channels.pop(channel, None)
        if one is None or not one.is_subscribed or not self.client_id:
            return None
        return self._numbered(messages.unsubscribe(self.client_id, channel))

    def to_disconnect(self) -> Message:
        """The last message of the session."""
        return self._numbered(messages.disconnect(self.client_id))

    def lose(self) -> None:
        """Forget the session: a handshake and the subscriptions are due."""
        self.client_id = ""
        for name, one in self.channels.items():
            if one.is_subscribed and one.replay == messages.NEW_EVENTS:
                self.missed.append(name)
            one.is_subscribed = False

    def take(self, answer: Iterable[tuple[Message, str]], of_client: str) -> list[StreamedEvent]:
        """Take an answer's messages; returns its events.

        :param of_client: client that the request was of; empty for a handshake. What comes for a
            client of an earlier session has no effect, because its events come again.
        """
        if of_client != self.client_id:
            return []
        self.failure = None
        events: list[StreamedEvent] = []
        names = tuple(self.channels)
        for message, text in answer:
            if str(message["channel"]).startswith("/meta/"):
                self._take_meta(message)
            elif (event := event_of(message, text, names)).channel in self.channels:
                events.append(event)
        return events

    def given(self, event: StreamedEvent) -> None:
        """Note that the caller has an event: its channel continues after it."""
        one = self.channels.get(event.channel)
        if one is not None and event.replay_id is not None:
            one.replay = event.replay_id

    def _take_meta(self, message: Message) -> None:
        self._take_advice(message)
        channel = message["channel"]
        one = self.channels.get(str(message.get("subscription")))
        if is_refused(message):
            failure = failure_of(message)
            if channel == messages.SUBSCRIBE and one is not None and failure.remedy == "fail":
                one.failure = failure
                return
            self.failure = failure
            if failure.remedy in {"handshake", "log in"}:
                self.lose()
        elif channel == messages.HANDSHAKE:
            self.lose()
            self.client_id = str(message["clientId"])
            self.handshakes += 1
        elif channel == messages.SUBSCRIBE and one is not None:
            one.is_subscribed, one.failure = True, None
        elif channel == messages.CONNECT and advised(message) == "handshake":
            self.failure = ended_by_advice()
            self.lose()

    def _take_advice(self, message: Message) -> None:
        advice = message.get("advice")
        if not isinstance(advice, dict):
            return
        if isinstance(interval := advice.get("interval"), int | float):
            self.interval = max(0.0, interval / 1000)
        if isinstance(timeout := advice.get("timeout"), int | float) and timeout > 0:
            self.poll_seconds = timeout / 1000

    def _numbered(self, message: Message) -> Message:
        return {**message, "id": str(next(self._ids))}
