"""Transports of the client: their interface, and the choice by the channel's name. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    QuotaExceededError,
    ReplayError,
    ReplayIdRefusedError,
    ServerError,
    SfEventsError,
    TransportError,
    TransportTimeoutError,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.replay_point import ReplayPoint


class TransportName(StrEnum):
    """Salesforce's two APIs for events."""

    PUBSUB = "pubsub"
    STREAMING = "streaming"


class MessageSink(Protocol):
    """Receiver of a transport's messages."""

    async def put(self, message: dict[str, Any]) -> bool:
        """Take a message, when there is room; False: no more are taken."""

    async def end(self, error: SfEventsError) -> None:
        """Note the error that ended the transport."""


class ClientTransport(Protocol):
    """One API, with subscriptions that reconnect by themselves."""

    async def subscribe(
        self, channel: str, start: ReplayPoint, fallback: ReplayPoint | None
    ) -> None:
        """Subscribe; messages go to the sink from then on.

        :param fallback: start if the service refuses the replay id.
        :raises SfEventsError: refused, or not reached.
        """

    async def unsubscribe(self, channel: str) -> None: ...

    async def close(self) -> None: ...


def transport_for(channel: str, chosen: TransportName) -> TransportName:
    """Return the transport of a channel.

    PushTopics and generic events exist only over the Streaming API (Salesforce, Streaming API
    Developer Guide).

    :param chosen: for `/event/` and `/data/`, which both have.
    :raises ConfigurationError: the name is no channel.
    """
    if channel.startswith(("/topic/", "/u/")):
        return TransportName.STREAMING
    if channel.startswith(("/event/", "/data/")):
        return chosen
    raise ConfigurationError(
        f"{channel!r} is no channel. Give its full name, such as /event/Order__e, "
        "/data/AccountChangeEvent, /topic/Orders or /u/Notices."
    )


def client_error(error: SfEventsError) -> SfEventsError:
    """Return the error that the client raises for an error of a transport.

    A refusal is a `ServerError`, and a service that cannot be reached a `TransportTimeoutError`.
    Refused credentials stay an `AuthenticationError`.
    """
    match error:
        case ServerError() | AuthenticationError() | TransportTimeoutError() | ClientClosedError():
            return error
        case ReplayIdRefusedError():
            return ReplayError(str(error))
        case QuotaExceededError() | ConfigurationError():
            return ServerError(str(error))
        case TransportError():
            return TransportTimeoutError(error.message, error.error_code, error.rpc_id)
        case _:
            return error
