"""From a failed RPC to one of our errors, which says what was tried, what the service said, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import grpc

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceeded,
    ReplayIdRefused,
    SchemaUnknown,
    SfEventsError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.error_codes import BY_CODE, PREFIX, Kind
from airflow_provider_sfevents.pubsub.error_meaning import meaning, was_not_sent

if TYPE_CHECKING:
    import grpc.aio

    from airflow_provider_sfevents.pubsub.secret import Secret

# The service ends its messages so; the id is in ours once, in one place.
_RPC_ID = re.compile(r"\s*\brpcId:\s*(?P<id>[0-9A-Za-z-]+)\s*$")


class TokenRefused(AuthenticationError):  # noqa: N818 - what happened, not an -Error
    """The service refused the session; a new one may help. Users meet it only when the new one was refused as well."""


class OwnFault(TransportError):  # noqa: N818
    """The service says that this client broke a rule; the next try would break it again."""


class NotSent(TransportError):  # noqa: N818
    """There was no connection, so the service did not see the call."""


ERRORS: dict[Kind, type[SfEventsError]] = {
    Kind.CONFIGURATION: ConfigurationError,
    Kind.TOPIC: TopicError,
    Kind.REPLAY_ID: ReplayIdRefused,
    Kind.SCHEMA: SchemaUnknown,
    Kind.TOKEN: TokenRefused,
    Kind.AUTHENTICATION: AuthenticationError,
    Kind.TRANSIENT: TransportError,
    Kind.OWN_FAULT: OwnFault,
    Kind.QUOTA: QuotaExceeded,
}


def is_transient(error: SfEventsError) -> bool:
    """Whether the same call may well succeed in a moment."""
    return isinstance(error, TransportError) and not isinstance(error, (QuotaExceeded, OwnFault))


def may_pass(error: SfEventsError) -> bool:
    """Whether the same call may succeed later without anybody's doing: in a moment, or with another session."""
    return is_transient(error) or isinstance(error, TokenRefused)


def took_nothing(error: SfEventsError) -> bool:
    """Whether the service certainly did not carry out the one call that failed so.

    It did not see the call, or refused it. A connection that broke, and a code that is not known,
    leave it open.
    """
    if isinstance(error, NotSent) or not isinstance(error, TransportError):
        return True
    return error.error_code.removeprefix(PREFIX) in BY_CODE


def from_rpc(
    error: grpc.aio.AioRpcError, doing: str, secret: Secret, *, rpc: str = "", rpc_id: str = ""
) -> SfEventsError:
    """Our error for a failed RPC.

    :param doing: what was tried, as the beginning of a sentence, with the thing's name.
    :param rpc: the method, for what one of them means by a status.
    :param rpc_id: of the call, should the failure not tell it.
    :param secret: the token the call carried, which must not show should the service quote it.
    """
    trailers = {str(key): str(value) for key, value in error.trailing_metadata() or ()}
    details = error.details() or ""
    return translate(
        doing,
        status=error.code().name,
        details=details.replace(secret.reveal(), "***") if secret else details,
        code=trailers.get("error-code", ""),
        rpc_id=trailers.get("rpc-id") or rpc_id,
        rpc=rpc,
    )


def translate(
    doing: str, *, status: str, details: str, code: str, rpc_id: str, rpc: str = ""
) -> SfEventsError:
    found = meaning(code, status, details, rpc=rpc)
    told = _RPC_ID.search(details)
    rpc_id = told["id"] if told else rpc_id  # the trailers may be missing
    said = _RPC_ID.sub("", details).strip().rstrip(".") or "no reason given"
    labels = [code.removeprefix(PREFIX) or status]
    if code and code.removeprefix(PREFIX) not in BY_CODE:
        labels.append(status)  # a code newer than this release
    labels += [f"rpc id {rpc_id}"] if rpc_id else []
    message = f"{doing} failed: {said} ({', '.join(labels)}). {found.remedy}"
    kind = ERRORS[found.kind]
    if kind is TransportError and was_not_sent(code, details):
        kind = NotSent
    if issubclass(kind, TransportError):
        return kind(message, error_code=code, rpc_id=rpc_id)
    return kind(message)
