"""Checks of messages; handshake, subscribe, unsubscribe and disconnect. No waiting, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.streaming_events import KINDS, decoded
from airflow_provider_sfevents.emulator.cometd import replies, topic_filters
from airflow_provider_sfevents.emulator.cometd.message_parsing import (
    ALL,
    NEW,
    MessageRefusedError,
    channel_asked,
    invalid_replay_id,
    replay_asked,
)
from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.org.dynamic_channels import Opened
from airflow_provider_sfevents.emulator.state.cometd_clients import (
    RECONNECT_SECONDS,
    CometdClient,
    Subscribed,
)
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.cometd.replies import Message
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

BROWSER, SERVER = "BAYEUX_BROWSER", "sfdc-stream"
OpenChannel = Callable[[str, str], Opened]
_NOT_OPENED: dict[Opened, str] = {
    "unknown": replies.UNKNOWN_CHANNEL,
    "case": replies.CASE_ONLY,
    "full": replies.TOO_MANY_CHANNELS,
    "refused": replies.NO_ACCESS,
}
_TOPICS, _GENERIC = ("/event/", "/data/", "/topic/"), "/u/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Sender of a request.

    :param version_error: error of the API version in its URL; empty if accepted.
    :param session: session of its token, if valid in this org.
    :param browser: value of the cookie BAYEUX_BROWSER, empty without one; `server`: of sfdc-stream.
    """

    version_error: str
    token: str = field(repr=False)
    session: OrgSession | None
    browser: str
    server: str


def refusal(message: Message, caller: Caller, client: CometdClient | None) -> Message | None:
    """Answer to a message that is refused; None for an accepted one."""
    if caller.version_error:
        return replies.refused(message, caller.version_error)
    if caller.session is None:
        why = replies.AUTHENTICATION_INVALID if caller.token else replies.AUTHENTICATION_REQUIRED
        return replies.unauthenticated(message, why)
    if message["channel"] == replies.HANDSHAKE:
        return None
    if client is None:
        if message["channel"] == replies.SUBSCRIBE and not message.get("clientId"):
            return replies.refused(message, replies.NO_HANDSHAKE)
        return replies.unknown_client(message)
    return _another(message, caller, caller.session.user_id, client)


def _another(
    message: Message, caller: Caller, user_id: str, client: CometdClient
) -> Message | None:
    """Refuse another user, or a request without the cookies of the handshake."""
    if user_id != client.user_id:
        return replies.refused(message, replies.ANOTHER_USER)
    if caller.browser != client.browser:
        return replies.refused(message, replies.no_cookie(client.client_id, BROWSER))
    # Without this cookie the request goes to any server, and only one server knows the client.
    return replies.unknown_client(message) if caller.server != client.server else None


def topic_error(name: str, topic: BusTopic | None) -> str:
    """Reason why this user cannot subscribe to a channel; empty if it is possible."""
    if topic is None:
        if name.startswith(_GENERIC):
            return replies.UNKNOWN_CHANNEL
        if name.startswith(_TOPICS):
            return f"400::The channel you requested to subscribe to doesn't exist {{{name}}}"
        return f"403::Cannot create channel {{{name}}}"
    if topic.can_subscribe:
        return ""
    if topic.kind == "change":
        return "403::User not allowed to subscribe CDC without View All Data permissions"
    return "403::Subscriber does not have access to the entity in this topic"


def _admission(topic: BusTopic, client: CometdClient, text: str) -> Callable[[bytes], bool] | None:
    """Return the rule that tells by a payload if a subscription gets the event; None: it gets all.

    :param text: filter of the subscription; empty without one.
    :raises MessageRefusedError: the filter names a field that the topic does not have.
    """
    if topic.kind == "generic":
        return lambda payload: client.user_id in (decoded(payload)["userIds"] or (client.user_id,))
    if not text:
        return None
    wanted = topic_filters.parse(text, topic.fields)
    return lambda payload: wanted.matches(decoded(payload)["compared"])


class MetaChannels:
    """Carries out messages on the meta channels of one org.

    :param open_channel: creates a generic channel for a user if it can; see `dynamic_channels`.
    """

    def __init__(self, state: EmulatorState, org_id: str, open_channel: OpenChannel) -> None:
        self._state = state
        self._org_id = org_id
        self._open_channel = open_channel
        self._clients = state.cometd

    @property
    def bus(self) -> Bus:
        return self._state.bus(self._org_id)

    @property
    def reconnect_seconds(self) -> float:
        return RECONNECT_SECONDS * self._state.knobs.cometd_time_scale

    def handshake(self, caller: Caller, session: OrgSession, at: float) -> CometdClient | None:
        """Add a client; None if the org has reached its limit of clients."""
        most = self._state.knobs.cometd_max_clients
        if most is not None and self._clients.count(self._org_id) >= most:
            return None
        return self._clients.add(
            org_id=self._org_id,
            user_id=session.user_id,
            token=caller.token,
            browser=caller.browser,
            server=caller.server,
            numbering=self.bus.numbering,
            until=at + self.reconnect_seconds,
        )

    def answer(self, message: Message, client: CometdClient, session: OrgSession) -> Message:
        """Carry out a message that is neither a handshake nor a connect."""
        match message["channel"]:
            case replies.SUBSCRIBE:
                return self._subscribe(message, client, session)
            case replies.UNSUBSCRIBE:
                self._leave(client, str(message.get("subscription")), "OK")
                return replies.accepted(message)
            case replies.DISCONNECT:
                if client.held:
                    client.held.supersede()
                self.end(client, "OK")
                return replies.accepted(message)
            case str(channel) if channel.startswith("/meta/"):
                return replies.refused(message, replies.UNKNOWN_CHANNEL)
        return replies.refused(message, replies.NO_PUBLISHING)

    def end(self, client: CometdClient, status: str) -> None:
        """Remove a client and close its entries in the call log."""
        self._clients.remove(client)
        for channel in tuple(client.subscriptions):
            self._leave(client, channel, status)

    def _subscribe(self, message: Message, client: CometdClient, session: OrgSession) -> Message:
        try:
            channel = channel_asked(message)
            name, text = topic_filters.without_filter(channel)
            topic = self._topic(name, client)
            admits = _admission(topic, client, text)
            asked = replay_asked(message, name, spaces=self._spaces)
            after = self._start(asked, name)
        except MessageRefusedError as refused:
            return replies.refused(message, refused.error)
        self._leave(client, channel, "OK")  # a repeated subscription replaces the earlier one
        entry = self._state.call_log.subscribed(
            topic=channel,
            org_id=self._org_id,
            client=session.client,
            username=session.username,
            started_at=self._state.clock.now(),
        )
        entry.start = {NEW: "latest", ALL: "earliest"}.get(asked) or self.bus.replay_id(asked).hex()
        client.subscriptions[channel] = Subscribed(
            channel=channel, after=after, entry=entry, topic=name, admits=admits
        )
        self._state.call_log.began(entry)
        if client.held:
            client.held.release()
        return replies.accepted(message)

    def _topic(self, name: str, client: CometdClient) -> BusTopic:
        """Topic of a subscription.

        :raises MessageRefusedError: the client cannot subscribe to it.
        """
        topic = self.bus.topic(name)
        if topic is None and name.startswith(_GENERIC):
            opened = self._open_channel(name, client.user_id)
            if opened != "made":
                raise MessageRefusedError(_NOT_OPENED[opened])
            topic = self.bus.topic(name)
        if error := topic_error(name, topic):
            raise MessageRefusedError(error)
        if topic is None:
            raise AssertionError("a subscription to an unknown topic was accepted")
        most = self._state.knobs.cometd_topic_subscribers
        others = len(self._clients.subscribers(self._org_id, name))
        if topic.kind in KINDS and most is not None and others >= most:
            raise MessageRefusedError(replies.TOO_MANY_SUBSCRIPTIONS)
        return topic

    def _start(self, asked: int, topic: str) -> int:
        """Position on the bus after which a subscription starts.

        :raises MessageRefusedError: the replay id has expired or was never issued.
        """
        try:
            match asked:
                case -1:
                    return self.bus.start(pb.LATEST, b"")
                case -2:
                    return self.bus.start(pb.EARLIEST, b"")
            return self.bus.start(pb.CUSTOM, salesforce_ids.replay_id(asked), topic)
        except RefusalError as refusal:
            raise MessageRefusedError(invalid_replay_id(asked, spaces=self._spaces)) from refusal

    def _leave(self, client: CometdClient, channel: str, status: str) -> None:
        if subscribed := client.subscriptions.pop(channel, None):
            self._state.call_log.ended(subscribed.entry, status)

    @property
    def _spaces(self) -> int:
        return self._state.knobs.cometd_replay_error_spaces
