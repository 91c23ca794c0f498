"""`SalesforceStreamingClient`: an asyncio client for events, without Airflow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_sfevents.client.authenticators import PasswordAuthenticator, settings_of
from airflow_provider_sfevents.client.message_buffer import MessageBuffer
from airflow_provider_sfevents.client.replay_markers import ReplayOption, start_from
from airflow_provider_sfevents.client.replay_storages import (
    ReplayMarkerStorage,
    ReplayMarkerStoragePolicy,
    storage_from,
)
from airflow_provider_sfevents.client.transports import client_error
from airflow_provider_sfevents.exceptions import (
    ClientClosedError,
    ConfigurationError,
    SfEventsError,
)
from airflow_provider_sfevents.pubsub.auth.connection_checks import check_timeout
from airflow_provider_sfevents.pubsub.topic_names import TransportName, has_root, transport_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
    from types import TracebackType

    from airflow_provider_sfevents.client.authenticators import Authenticator
    from airflow_provider_sfevents.client.pubsub_transport import PubSubTransport
    from airflow_provider_sfevents.client.transports import ClientTransport
    from airflow_provider_sfevents.pubsub.auth.settings import Login, Settings

    Message = dict[str, Any]
    Replay = ReplayOption | ReplayMarkerStorage | MutableMapping[str, Any] | int | str

_OF_SETTINGS: Any = object()
_CLOSED = "The client is closed. Use it as `async with`, or call `open()` first."


class Client:
    """Client for several channels, to be used as `async with` or with `open` and `close`.

    Messages are prefetched into a buffer and read by `receive` or `async for`. What is in the
    buffer can be read after the connection was lost, and after `close`.

    :param authenticator: a `PasswordAuthenticator` or `RefreshTokenAuthenticator`, a login of the
        package, or `Settings`.
    :param replay: start of subscriptions, or the storage of markers (`replay_storages`).
    :param replay_fallback: start of a subscription whose replay id the service refuses.
    :param replay_storage_policy: when markers are stored.
    :param connection_timeout: seconds for a lost connection to come back; None: no limit. Default:
        that of the `Settings`, which is 10.
    :param max_pending_count: most messages in the buffer; None: no limit. Over the Pub/Sub API as
        many may be on the way for each channel, 100 at most.
    :param json_dumps: writes the JSON of messages of the Streaming API.
    :param json_loads: reads it.
    :param transport: `pubsub` or `streaming`, for channels that both have.
    :param raw: add each event's bytes to its message, as `data.raw`.
    :raises ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        authenticator: Authenticator | Login | Settings,
        *,
        replay: Replay = ReplayOption.NEW_EVENTS,
        replay_fallback: ReplayOption | int | str | None = None,
        replay_storage_policy: ReplayMarkerStoragePolicy = ReplayMarkerStoragePolicy.AUTOMATIC,
        connection_timeout: float | None = _OF_SETTINGS,
        max_pending_count: int | None = 100,
        json_dumps: Callable[[Any], str] = json.dumps,
        json_loads: Callable[[str], Any] = json.loads,
        transport: str = TransportName.PUBSUB,
        raw: bool = False,
    ) -> None:
        self.settings = settings_of(authenticator)
        self.replay_storage = storage_from(replay)
        self.replay_fallback = replay_fallback
        if not isinstance(replay_storage_policy, ReplayMarkerStoragePolicy):
            raise ConfigurationError(
                f"replay_storage_policy={replay_storage_policy!r} is unknown. Give one of "
                f"{', '.join(map(str, ReplayMarkerStoragePolicy))}."
            )
        self.replay_storage_policy = replay_storage_policy
        if connection_timeout is _OF_SETTINGS:
            connection_timeout = self.settings.connection_timeout
        check_timeout("connection_timeout", connection_timeout)
        self.connection_timeout = connection_timeout
        self.max_pending_count = max_pending_count
        self._fallback = None if replay_fallback is None else start_from(replay_fallback)
        self._json_dumps = json_dumps
        self._json_loads = json_loads
        self._raw = raw
        if transport not in list(TransportName):
            raise ConfigurationError(
                f"transport={transport!r} is unknown. Give {' or '.join(map(repr, _NAMES))}."
            )
        self._transport = TransportName(transport)
        self._transports: dict[TransportName, ClientTransport] = {}
        self._channels: dict[str, TransportName] = {}
        self._buffer = MessageBuffer(max_pending_count)
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncGenerator[Message]:
        """Yield messages until the client is closed.

        :raises ServerError: as `receive`.
        :raises TransportTimeoutError: as `receive`.
        """
        while True:
            try:
                message = await self.receive()
            except ClientClosedError:
                return
            yield message

    @property
    def closed(self) -> bool:
        return not self._is_open

    @property
    def subscriptions(self) -> set[str]:
        """Names of the subscribed channels."""
        return set(self._channels)

    @property
    def pending_count(self) -> int:
        """Number of messages in the buffer."""
        return len(self._buffer)

    @property
    def has_pending_messages(self) -> bool:
        return self.pending_count > 0

    async def open(self) -> None:
        """Log in.

        :raises AuthenticationError: Salesforce refuses the credentials.
        :raises ServerError: Salesforce refuses the login for another reason.
        :raises TransportTimeoutError: Salesforce cannot be reached.
        :raises ConfigurationError: the client is open already.
        """
        if self._is_open:
            raise ConfigurationError("The client is open already. Close it before.")
        from airflow_provider_sfevents.pubsub.auth.session_cache import PROCESS_SESSIONS
        from airflow_provider_sfevents.pubsub.clock import Clock

        try:
            await PROCESS_SESSIONS.get(self.settings, Clock())
        except SfEventsError as error:
            raise client_error(error) from error
        self._buffer = MessageBuffer(self.max_pending_count)
        self._is_open = True

    async def close(self) -> None:
        """Close all subscriptions. Messages in the buffer can still be received."""
        self._is_open = False
        self._channels.clear()
        transports = [*self._transports.values()]
        self._transports.clear()
        await self._buffer.end(ClientClosedError(_CLOSED))
        for transport in transports:
            await transport.close()

    async def subscribe(self, channel: str) -> None:
        """Subscribe to a channel, from its marker or from `replay`; also while messages arrive.

        :raises ReplayError: the service refuses the replay id, and there is no `replay_fallback`.
        :raises ServerError: the service refuses the channel.
        :raises TransportTimeoutError: the service cannot be reached.
        :raises ClientClosedError: the client is not open.
        :raises ConfigurationError: the name is no channel, or the stored marker is none.
        """
        self._check_open()
        name = transport_for(_checked(channel), self._transport)
        start = await self.replay_storage.start(channel)
        try:
            await self._opened(name).subscribe(channel, start, self._fallback)
        except SfEventsError as error:
            raise client_error(error) from error
        self._channels[channel] = name

    async def unsubscribe(self, channel: str) -> None:
        """Unsubscribe. Messages of the channel that are in the buffer stay there.

        :raises ClientClosedError: the client is not open.
        """
        self._check_open()
        name = self._channels.pop(channel, None)
        if name is not None:
            await self._transports[name].unsubscribe(channel)

    async def receive(self) -> Message:
        """Return the oldest message; waits for one. Stores its marker, unless by hand.

        A message whose marker could not be stored, or whose receiver was cancelled meanwhile, is
        the next one again.

        :raises ServerError: the service ended a subscription; raised after the buffered messages.
        :raises TransportTimeoutError: a lost connection did not come back; likewise.
        :raises ClientClosedError: the client is closed and has no more messages.
        """
        if self.closed and not self.has_pending_messages:
            raise ClientClosedError(_CLOSED)
        try:
            message = await self._buffer.get()
        except SfEventsError as error:
            raise client_error(error) from error
        if self.replay_storage_policy is ReplayMarkerStoragePolicy.AUTOMATIC:
            try:
                await self.replay_storage.extract_replay_id(message)
            except BaseException:
                self._buffer.put_back(message)
                raise
        return message

    async def publish(self, channel: str, data: Mapping[str, Any] | str) -> str:
        """Publish a platform event or a generic event, and return its event id.

        :param channel: such as `/event/Order__e` or `/u/Notices`; generic events have no id.
        :param data: the fields by name; of a generic event the text.
        :raises ServerError: the service refuses the event.
        :raises TransportTimeoutError: the service cannot be reached.
        :raises ConfigurationError: the channel takes no events.
        :raises ClientClosedError: the client is not open.
        """
        from airflow_provider_sfevents.exceptions import ServerError

        self._check_open()
        is_generic = channel.startswith("/u/")
        if not channel.startswith(("/event/", "/u/")) or isinstance(data, str) != is_generic:
            raise ConfigurationError(
                f"{channel} takes no {'text' if isinstance(data, str) else 'fields'}. Publish the "
                "fields of a platform event, such as /event/Order__e, or the text of a generic "
                "event, such as /u/Notices."
            )
        try:
            if isinstance(data, str):
                return await self._push(channel, data)
            [result] = await self._pubsub().client.publish(channel, [data])
        except SfEventsError as error:
            raise client_error(error) from error
        if result.error:
            raise ServerError(result.error)
        return result.event_id

    async def _push(self, channel: str, text: str) -> str:
        from airflow_provider_sfevents.pubsub.rest.generic_events import push_text
        from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls

        async with RestCalls(self.settings) as rest:
            await push_text(rest, channel, text)
        return ""

    def _check_open(self) -> None:
        if self.closed:
            raise ClientClosedError(_CLOSED)

    def _opened(self, name: TransportName) -> ClientTransport:
        if name is TransportName.PUBSUB:
            return self._pubsub()
        return self._streaming()

    def _streaming(self) -> ClientTransport:
        from airflow_provider_sfevents.client.cometd_transport import CometdTransport

        if TransportName.STREAMING not in self._transports:
            self._transports[TransportName.STREAMING] = CometdTransport(
                self.settings,
                self._buffer,
                connection_timeout=self.connection_timeout,
                raw=self._raw,
                dumps=self._json_dumps,
                loads=self._json_loads,
            )
        return self._transports[TransportName.STREAMING]

    def _pubsub(self) -> PubSubTransport:
        from airflow_provider_sfevents.client.pubsub_transport import (
            PubSubOptions,
            PubSubTransport,
        )

        found = self._transports.get(TransportName.PUBSUB)
        if isinstance(found, PubSubTransport):
            return found
        options = PubSubOptions(
            connection_timeout=self.connection_timeout,
            max_pending=self.max_pending_count,
            raw=self._raw,
        )
        made = PubSubTransport(self.settings, self._buffer, options)
        self._transports[TransportName.PUBSUB] = made
        return made


_NAMES = [name.value for name in TransportName]


def _checked(channel: str) -> str:
    """Check that a name begins like that of a channel.

    :raises ConfigurationError: it does not.
    """
    if has_root(channel):
        return channel
    raise ConfigurationError(
        f"{channel!r} is no channel. Give its full name, such as /event/Order__e, "
        "/data/AccountChangeEvent, /topic/Orders or /u/Notices."
    )


class SalesforceStreamingClient(Client):
    """Client that logs in with a user's name and password.

    :param consumer_key: of the connected app.
    :param consumer_secret: of the connected app.
    :param username: of the Salesforce user.
    :param password: of the user, with the security token behind it where the org asks for one.
    :param sandbox: log in at test.salesforce.com.
    :param login_url: another host, such as the org's My Domain.
    :param options: further arguments of `Client`.
    """

    def __init__(
        self,
        *,
        consumer_key: str,
        consumer_secret: str,
        username: str,
        password: str,
        sandbox: bool = False,
        login_url: str = "",
        **options: Any,
    ) -> None:
        authenticator = PasswordAuthenticator(
            consumer_key=consumer_key,
            consumer_secret=consumer_secret,
            username=username,
            password=password,
            sandbox=sandbox,
            login_url=login_url,
        )
        super().__init__(authenticator, **options)
