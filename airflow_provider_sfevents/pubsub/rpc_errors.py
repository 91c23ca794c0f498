"""Errors of RPCs: the meaning of a failed call, and the error that is raised for it.

The error says what was tried, the service's reason, and the remedy.

The meaning follows from the error code, otherwise from gRPC's words, otherwise from the status.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import grpc

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    SchemaUnknownError,
    SfEventsError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.error_codes import (
    BY_CODE,
    NEW_TOKEN,
    OURS,
    PREFIX,
    SLOWER,
    ErrorKind,
    ErrorMeaning,
)

if TYPE_CHECKING:
    import grpc.aio

    from airflow_provider_sfevents.pubsub.auth.secret import Secret

_WIRE = ErrorMeaning(
    ErrorKind.TRANSIENT, "Try again; if it stays, check endpoint, network and proxy."
)
_NOT_THE_API = ErrorMeaning(
    ErrorKind.CONFIGURATION,
    "The server there is not the Pub/Sub API: check pubsub_endpoint and the Pub/Sub port.",
)
# The HTTP status codes that gRPC reads as UNAVAILABLE ("HTTP to gRPC Status Code Mapping").
_AWAY = ErrorMeaning(
    ErrorKind.TRANSIENT,
    "A gateway on the way is busy, or does not reach the service just now: try again; if it stays, "
    "check network and proxy.",
)

# Used if the service sent no code: the failure is of the network, a proxy, or another server.
# INVALID_ARGUMENT is not read as a bad replay id: it has many causes, which say nothing about the
# position.
BY_STATUS: dict[str, ErrorMeaning] = {
    "UNAUTHENTICATED": NEW_TOKEN,
    "PERMISSION_DENIED": ErrorMeaning(
        ErrorKind.CONFIGURATION, "Grant the connection's user the permission that it lacks."
    ),
    "NOT_FOUND": ErrorMeaning(ErrorKind.CONFIGURATION, "Check the requested name."),
    "INVALID_ARGUMENT": ErrorMeaning(ErrorKind.CONFIGURATION, "Check the request."),
    "UNIMPLEMENTED": _NOT_THE_API,
    "DEADLINE_EXCEEDED": _WIRE,
    "RESOURCE_EXHAUSTED": SLOWER,
}

# Parts of gRPC's own messages that separate a wrong setup from a network that recovers.
BY_DETAILS: tuple[tuple[str, ErrorMeaning], ...] = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        ErrorMeaning(
            ErrorKind.CONFIGURATION,
            "No trusted authority has signed its certificate: set ca_file to the authority that "
            "signed it.",
        ),
    ),
    (
        "Hostname Verification Check failed",
        ErrorMeaning(
            ErrorKind.CONFIGURATION,
            "Its certificate is for another host name: use that name in pubsub_endpoint.",
        ),
    ),
    (
        "WRONG_VERSION_NUMBER",
        ErrorMeaning(
            ErrorKind.CONFIGURATION,
            "It does not speak TLS: check its port, or set plaintext if it is on this machine.",
        ),
    ),
    (
        "missing selected ALPN property",
        ErrorMeaning(
            ErrorKind.CONFIGURATION,
            "It does not offer HTTP/2: check endpoint and port; if a proxy on the way opens TLS, "
            "let it pass this host and port unopened.",
        ),
    ),
    (
        "Socket closed",
        ErrorMeaning(
            ErrorKind.TRANSIENT,
            "Try again; if it stays, check the endpoint. A server that speaks TLS closes like "
            "this on a client set to plaintext.",
        ),
    ),
    (
        "upstream connect error",
        ErrorMeaning(
            ErrorKind.TRANSIENT,
            "A proxy before the service lost the call: try again; if it stays, check network and "
            "proxy. A request of more than 4 MB ends like this too.",
        ),
    ),
    (
        "RST_STREAM",
        ErrorMeaning(
            ErrorKind.TRANSIENT,
            "The service or a proxy dropped the stream: it is opened again and continues.",
        ),
    ),
    (
        "No CommitReplayRequests sent",
        ErrorMeaning(
            ErrorKind.TRANSIENT,
            "A managed subscription was closed after 30 minutes without a commit: it is opened "
            "again.",
        ),
    ),
    ("larger than max", OURS),
    ("http1.x server", _NOT_THE_API),
    *((f"Received http2 header with status: {status}", _AWAY) for status in (429, 502, 503, 504)),
    ("Received http2 header with status", _NOT_THE_API),
)

# gRPC's words if a call found no connection, or the server refused its stream before it looked at
# it (REFUSED_STREAM, RFC 9113 section 8.7). Every other failure of a connection may come after the
# service has carried the call out.
_NOT_SENT = (
    "failed to connect to all addresses",
    "errors resolving",
    "Received RST_STREAM with error code 7",
)


_NO_SUCH_SCHEMA = ErrorMeaning(
    ErrorKind.SCHEMA,
    "The service knows no schema of this id: an event that names it cannot be decoded.",
)


def meaning(code: str, status: str, details: str, *, rpc: str = "") -> ErrorMeaning:
    """Meaning by a known code; otherwise by gRPC's words about the connection.

    Otherwise by the status.

    :param rpc: the method that failed.
    """
    by_code = BY_CODE.get(code.removeprefix(PREFIX))
    by_details = next((found for part, found in BY_DETAILS if part in details), None)
    if rpc == "GetSchema" and _denies_the_schema(by_code or by_details, status):
        return _NO_SUCH_SCHEMA
    return by_code or by_details or BY_STATUS.get(status, _WIRE)


def was_not_sent(code: str, details: str) -> bool:
    """Return whether the service certainly did not see a failed call."""
    return not code and any(part in details for part in _NOT_SENT)


def _denies_the_schema(said: ErrorMeaning | None, status: str) -> bool:
    """Return whether a refused GetSchema means that there is no such schema, for good.

    A passing error and a missing permission never do.

    :param said: meaning of the code or of the connection's words, if known.
    """
    if said is None:
        return status in {"NOT_FOUND", "INVALID_ARGUMENT"}
    return status == "NOT_FOUND" and said is BY_CODE["schema.meta.permission"]


# The service ends its messages like this; the client's message names the id once, as a label.
_RPC_ID = re.compile(r"\s*\brpcId:\s*(?P<id>[0-9A-Za-z-]+)\s*$")


class TokenRefusedError(AuthenticationError):
    """The service refused the session; a new one may help.

    Users see it only if the new one was refused as well.
    """


class OwnFaultError(TransportError):
    """The service says that this client broke a rule; the next try would break it again."""


class NotSentError(TransportError):
    """There was no connection, so the service did not see the call."""


ERRORS: dict[ErrorKind, type[SfEventsError]] = {
    ErrorKind.CONFIGURATION: ConfigurationError,
    ErrorKind.TOPIC: TopicError,
    ErrorKind.REPLAY_ID: ReplayIdRefusedError,
    ErrorKind.SCHEMA: SchemaUnknownError,
    ErrorKind.TOKEN: TokenRefusedError,
    ErrorKind.AUTHENTICATION: AuthenticationError,
    ErrorKind.TRANSIENT: TransportError,
    ErrorKind.OWN_FAULT: OwnFaultError,
    ErrorKind.QUOTA: QuotaExceededError,
}


def is_transient(error: SfEventsError) -> bool:
    """Return whether the same call may succeed in a moment."""
    return isinstance(error, TransportError) and not isinstance(
        error, (QuotaExceededError, OwnFaultError)
    )


def may_pass(error: SfEventsError) -> bool:
    """Return whether the same call may succeed later: in a moment, or with another session."""
    return is_transient(error) or isinstance(error, TokenRefusedError)


def took_nothing(error: SfEventsError) -> bool:
    """Return whether the service certainly did not carry out the call that failed so.

    It did not see the call, or refused it. After a broken connection or an unknown code the call
    may have been carried out.
    """
    if isinstance(error, NotSentError) or not isinstance(error, TransportError):
        return True
    return error.error_code.removeprefix(PREFIX) in BY_CODE


def from_rpc(
    error: grpc.aio.AioRpcError, doing: str, secret: Secret, *, rpc: str = "", rpc_id: str = ""
) -> SfEventsError:
    """Make the error for a failed RPC.

    :param doing: what was tried, as the beginning of a sentence, with the thing's name.
    :param rpc: the method; for one of them a status has a meaning of its own.
    :param rpc_id: of the call, if the failure does not name it.
    :param secret: the token of the call; it is masked in case the service quotes it.
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
    named = _RPC_ID.search(details)
    rpc_id = named["id"] if named else rpc_id  # the trailers may be missing
    said = _RPC_ID.sub("", details).strip().rstrip(".") or "no reason given"
    labels = [code.removeprefix(PREFIX) or status]
    if code and code.removeprefix(PREFIX) not in BY_CODE:
        labels.append(status)  # a code newer than this release
    labels += [f"rpc id {rpc_id}"] if rpc_id else []
    message = f"{doing} failed: {said} ({', '.join(labels)}). {found.remedy}"
    kind = ERRORS[found.kind]
    if kind is TransportError and was_not_sent(code, details):
        kind = NotSentError
    if issubclass(kind, TransportError):
        return kind(message, error_code=code, rpc_id=rpc_id)
    return kind(message)
