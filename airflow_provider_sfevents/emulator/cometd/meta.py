"""Who may send a message, and what is done about handshake, subscribe, unsubscribe and disconnect. No waiting, no sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import ids
from airflow_provider_sfevents.emulator.cometd import answers
from airflow_provider_sfevents.emulator.cometd.asking import (
    ALL,
    NEW,
    MessageRefused,
    channel_asked,
    invalid_replay_id,
    replay_asked,
)
from airflow_provider_sfevents.emulator.cometd_clients import RECONNECT_SECONDS, Client, Subscribed
from airflow_provider_sfevents.emulator.errors import Refusal
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus import Bus, Topic
    from airflow_provider_sfevents.emulator.cometd.answers import Message
    from airflow_provider_sfevents.emulator.sessions import Session
    from airflow_provider_sfevents.emulator.state import State

BROWSER, SERVER = "BAYEUX_BROWSER", "sfdc-stream"
_TOPICS, _GENERIC = ("/event/", "/data/", "/topic/"), "/u/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request.

    :param version_error: what is wrong with the API version in its URL; empty when nothing is.
    :param session: of its token, where that is good in this org.
    :param browser: value of the cookie BAYEUX_BROWSER; empty without one; `server` of sfdc-stream likewise.
    """

    version_error: str
    token: str = field(repr=False)
    session: Session | None
    browser: str
    server: str


def refusal(message: Message, caller: Caller, client: Client | None) -> Message | None:
    """Answer to a message that is not let in; None for one that is."""
    if caller.version_error:
        return answers.refused(message, caller.version_error)
    if caller.session is None:
        why = answers.AUTHENTICATION_INVALID if caller.token else answers.AUTHENTICATION_REQUIRED
        return answers.unauthenticated(message, why)
    if message["channel"] == answers.HANDSHAKE:
        return None
    if client is None:
        if message["channel"] == answers.SUBSCRIBE and not message.get("clientId"):
            return answers.refused(message, answers.NO_HANDSHAKE)
        return answers.unknown_client(message)
    return _another(message, caller, caller.session.user_id, client)


def _another(message: Message, caller: Caller, user_id: str, client: Client) -> Message | None:
    """Refuse who is not the one that shook hands: another user, or without the cookies it was given."""
    if user_id != client.user_id:
        return answers.refused(message, answers.ANOTHER_USER)
    if caller.browser != client.browser:
        return answers.refused(message, answers.no_cookie(client.client_id, BROWSER))
    # Without this cookie a request is led to any server, and none but one knows the client.
    return answers.unknown_client(message) if caller.server != client.server else None


def topic_error(name: str, topic: Topic | None) -> str:
    """Say why nobody, or not this user, may subscribe to a channel; empty when they may."""
    if topic is None:
        if name.startswith(_GENERIC):
            return answers.UNKNOWN_CHANNEL
        if name.startswith(_TOPICS):
            return f"400::The channel you requested to subscribe to doesn't exist {{{name}}}"
        return f"403::Cannot create channel {{{name}}}"
    if topic.can_subscribe:
        return ""
    if topic.kind == "change":
        return "403::User not allowed to subscribe CDC without View All Data permissions"
    return "403::Subscriber does not have access to the entity in this topic"


class Meta:
    """Carries out messages on the meta channels of one org."""

    def __init__(self, state: State, org_id: str) -> None:
        self._state = state
        self._org_id = org_id
        self._clients = state.cometd

    @property
    def bus(self) -> Bus:
        return self._state.bus(self._org_id)

    @property
    def reconnect_seconds(self) -> float:
        return RECONNECT_SECONDS * self._state.knobs.cometd_time_scale

    def handshake(self, caller: Caller, session: Session, at: float) -> Client | None:
        """Let a client in; None when the org has as many as it may."""
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

    def answer(self, message: Message, client: Client, session: Session) -> Message:
        """Do what a message says that is neither a handshake nor a connect."""
        match message["channel"]:
            case answers.SUBSCRIBE:
                return self._subscribe(message, client, session)
            case answers.UNSUBSCRIBE:
                self._leave(client, str(message.get("subscription")), "OK")
                return answers.accepted(message)
            case answers.DISCONNECT:
                if client.held:
                    client.held.supersede()
                self.end(client, "OK")
                return answers.accepted(message)
            case str(channel) if channel.startswith("/meta/"):
                return answers.refused(message, answers.UNKNOWN_CHANNEL)
        return answers.refused(message, answers.NO_PUBLISHING)

    def end(self, client: Client, status: str) -> None:
        """Forget a client and close its pages in the book."""
        self._clients.remove(client)
        for channel in tuple(client.subscriptions):
            self._leave(client, channel, status)

    def _subscribe(self, message: Message, client: Client, session: Session) -> Message:
        try:
            channel = channel_asked(message)
            if error := topic_error(channel, self.bus.topic(channel)):
                return answers.refused(message, error)
            asked = replay_asked(message, channel, spaces=self._spaces)
            after = self._start(asked)
        except MessageRefused as refused:
            return answers.refused(message, refused.error)
        self._leave(client, channel, "OK")  # who subscribes again starts anew
        page = self._state.records.subscribed(
            topic=channel,
            org_id=self._org_id,
            client=session.client,
            username=session.username,
            started_at=self._state.clock.now(),
        )
        page.start = {NEW: "latest", ALL: "earliest"}.get(asked) or self.bus.replay_id(asked).hex()
        client.subscriptions[channel] = Subscribed(channel=channel, after=after, page=page)
        self._state.records.began(page)
        if client.held:
            client.held.release()
        return answers.accepted(message)

    def _start(self, asked: int) -> int:
        """Place on the bus a subscription begins after.

        :raises MessageRefused: when the replay id is aged out or was never given out.
        """
        try:
            match asked:
                case -1:
                    return self.bus.start(pb.LATEST, b"")
                case -2:
                    return self.bus.start(pb.EARLIEST, b"")
            return self.bus.start(pb.CUSTOM, ids.replay_id(asked))
        except Refusal as refusal:
            raise MessageRefused(invalid_replay_id(asked, spaces=self._spaces)) from refusal

    def _leave(self, client: Client, channel: str, status: str) -> None:
        if subscribed := client.subscriptions.pop(channel, None):
            self._state.records.ended(subscribed.page, status)

    @property
    def _spaces(self) -> int:
        return self._state.knobs.cometd_replay_error_spaces
