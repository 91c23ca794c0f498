"""Answers of the Streaming API to each kind of message, and the texts of its errors. Pure.

Sources: Streaming API Developer Guide, "Streaming API Error Codes" (v67) and "Handling Streaming
API Errors"; messages of live orgs for their form. A refused handshake has its reason in
`ext.sfdc.failureReason`, every other message in `error`.
"""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

HANDSHAKE, CONNECT = "/meta/handshake", "/meta/connect"
SUBSCRIBE, UNSUBSCRIBE, DISCONNECT = "/meta/subscribe", "/meta/unsubscribe", "/meta/disconnect"
LONG_POLLING = "long-polling"

NO_VERSION = "400::API version in the URI is mandatory. URI format: '/cometd/66.0'"
AUTHENTICATION_INVALID = "401::Authentication invalid"
AUTHENTICATION_REQUIRED = "401::Request requires authentication"
ANOTHER_USER = "400::Authenticated user id does not match the session's user id"
HANDSHAKE_DENIED = "403::Handshake denied"
NO_HANDSHAKE = "403::Client has not completed handshake"
UNKNOWN_CLIENT = "403::Unknown client"
TOO_MANY_CLIENTS = "403::Organization concurrent user limit exceeded"
DAILY_LIMIT = "403::Organization total events daily limit exceeded"
SIMULTANEOUS = (
    "403::To protect all customers from excessive use and Denial of Service attacks, we limit the "
    "number of simultaneous "
    "connections per server. Your request has been denied because this limit has been exceeded. "
    "Please try your request "
    "again later."
)
TOO_LARGE = "413::Maximum Request Size Exceeded"
TOO_BUSY = "503::Server is too busy. Please try your request again later."
UNKNOWN_CHANNEL = "404::Unknown channel"
NO_ACCESS = "403::No access on channel"
CASE_ONLY = "404::channel names may not vary only by case"
TOO_MANY_CHANNELS = (
    "403::Unable to create channel dynamically, maximum channel limit has been exceeded"
)
TOO_MANY_SUBSCRIPTIONS = "403::Subscription limit exceeded for this topic"
# No text is published for it; Salesforce takes no events over CometD.
NO_PUBLISHING = "400::Events cannot be published over CometD"

_EXT = {"replay": True, "payload.format": True}
_STOP = {"reconnect": "none", "interval": 0}


def unsupported_version(lowest: float) -> str:
    return (
        f"400::Unsupported API version. Only API versions '{lowest:.1f}' and later are supported. "
        "URI format: '/cometd/66.0'"
    )


def no_cookie(client_id: str, cookie: str) -> str:
    return f"400::Client {client_id} has established a session, but no {cookie} cookie present"


def invalid_connection_type(given: object) -> str:
    return f"400::Invalid connection type {{{given}}}"


def is_denied_outside(message: Message) -> bool:
    """True if a refusal of this message is stated in `ext`."""
    return bool(message["channel"] == HANDSHAKE)


def handshaken(message: Message, client_id: str) -> Message:
    """Accept a handshake. Its answer has no advice: the first connect's answer has it."""
    return {
        "ext": dict(_EXT),
        "minimumVersion": "1.0",
        "clientId": client_id,
        "supportedConnectionTypes": [LONG_POLLING],
        "channel": HANDSHAKE,
        **_numbered(message),
        "version": "1.0",
        "successful": True,
    }


def denied(message: Message, reason: str) -> Message:
    """Refuse a handshake."""
    return {
        "ext": {"sfdc": {"failureReason": reason}, **_EXT},
        "advice": {"reconnect": "none"},
        "channel": HANDSHAKE,
        **_numbered(message),
        "error": HANDSHAKE_DENIED,
        "successful": False,
    }


def first_advice(timeout_ms: int, *, multiple_clients: bool) -> Message:
    """Advice of a client's first connect."""
    if multiple_clients:
        return {
            "interval": 2000,
            "multiple-clients": True,
            "reconnect": "retry",
            "timeout": timeout_ms,
        }
    return {"interval": 0, "timeout": timeout_ms, "reconnect": "retry"}


LAST_ADVICE: Message = {"reconnect": "none"}
"""Advice of the connect that is held when its client disconnects.

Source: CometD's server, which Salesforce runs, in the answer to a connect of a session that has
ended. Its client for Java waits for it.
"""


def accepted(message: Message, advice: Message | None = None) -> Message:
    """Accept a message."""
    return {
        "clientId": message["clientId"],
        **({"advice": advice} if advice else {}),
        **_about(message),
        "successful": True,
    }


def refused(message: Message, error: str) -> Message:
    """Refuse a message; a handshake has an answer of its own form."""
    if is_denied_outside(message):
        return denied(message, error)
    return {**_who(message), **_about(message), "error": error, "successful": False}


def unauthenticated(message: Message, error: str) -> Message:
    """Refuse a message because of its token: the client must log in again."""
    if is_denied_outside(message):
        return denied(message, error)
    return _stopped(message, error)


def over_daily_limit(message: Message) -> Message:
    """Refuse to deliver: the org's allocation is used up, the client is disconnected."""
    return _stopped(message, DAILY_LIMIT)


def unknown_client(message: Message) -> Message:
    """Answer that the session is gone. The answer does not name the client."""
    return {
        "advice": {"interval": 0, "reconnect": "handshake"},
        **_about(message),
        "error": UNKNOWN_CLIENT,
        "successful": False,
    }


def too_busy(message: Message) -> Message:
    """Refuse a message for now.

    Outside the handshake, the error beside the reason is not known.
    """
    if is_denied_outside(message):
        return denied(message, TOO_BUSY)
    return {"ext": {"sfdc": {"failureReason": TOO_BUSY}}, **refused(message, TOO_BUSY)}


def ordered(status: str, message: Message) -> Message:
    """Fail a message as ordered by a test.

    :param status: name of a gRPC status. UNAUTHENTICATED: the token is invalid. NOT_FOUND: the
        session is lost. RESOURCE_EXHAUSTED: a limit of connections or deliveries. Any other: the
        server is too busy.
    """
    handshake = is_denied_outside(message)
    if status == "UNAUTHENTICATED":
        return unauthenticated(message, AUTHENTICATION_INVALID)
    if status == "NOT_FOUND" and not handshake:
        return unknown_client(message)
    if status == "RESOURCE_EXHAUSTED":
        return denied(message, SIMULTANEOUS) if handshake else over_daily_limit(message)
    return too_busy(message)


def _stopped(message: Message, error: str) -> Message:
    return {
        **_who(message),
        "advice": dict(_STOP),
        **_about(message),
        "error": error,
        "successful": False,
    }


def _about(message: Message) -> Message:
    """Channel, id and, if present, subscription of a message."""
    about = {"channel": message["channel"], **_numbered(message)}
    return (
        {**about, "subscription": message["subscription"]} if "subscription" in message else about
    )


def _numbered(message: Message) -> Message:
    """Id of a message, unchanged; Bayeux makes it optional."""
    return {"id": message["id"]} if "id" in message else {}


def _who(message: Message) -> Message:
    return {"clientId": message["clientId"]} if "clientId" in message else {}
