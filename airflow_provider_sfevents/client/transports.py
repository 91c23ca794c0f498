"""Transports of the client: their interface and their errors."""

from __future__ import annotations

import logging
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


logger = logging.getLogger(__name__)


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


def ending_error(error: BaseException) -> SfEventsError:
    """Return the error that ends the client: one that no rule names is logged with its trace."""
    if isinstance(error, SfEventsError):
        return error
    logger.error("A subscription ended by an unexpected error.", exc_info=error)
    return TransportTimeoutError(f"The subscription ended by an unexpected error: {error!r}.")


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
