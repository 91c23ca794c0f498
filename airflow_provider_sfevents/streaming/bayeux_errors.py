"""Meaning of the Streaming API's errors. Pure.

Source: Streaming API Developer Guide, "Streaming API Error Codes" and "Handling Streaming API
Errors". An error is `code::text`; that of a refused handshake is in `ext.sfdc.failureReason`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth import org_http
from airflow_provider_sfevents.streaming.bayeux_messages import HANDSHAKE, SUBSCRIBE, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.streaming.bayeux_messages import Message

Remedy = Literal["handshake", "log in", "wait", "fail"]
"""Ways to go on after an error: a new session, another token, a wait, or none."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error and its remedy.

    :param error: raised where the remedy is `fail`, or has not helped.
    """

    remedy: Remedy
    error: SfEventsError


_LOST = ("unknown client", "cookie present", "has not completed handshake")
_CROWDED = (
    "concurrent user limit exceeded",
    "number of simultaneous connections",
    "too busy",
)


def is_refused(message: Message) -> bool:
    return not message.get("successful", False)


def failure_of(message: Message) -> Failure:
    """The meaning of a refused message."""
    said = reason(message)
    code, _, text = said.partition("::")
    lower = text.lower()
    channel = str(message.get("subscription") or message.get("channel", ""))
    if code == "401":
        return Failure("log in", AuthenticationError(_sentence(channel, said, _LOG_IN)))
    if any(part in lower for part in _LOST):
        return Failure("handshake", TransportError(_sentence(channel, said, "Try again.")))
    if code == "503" or any(part in lower for part in _CROWDED):
        return Failure("wait", TransportError(_sentence(channel, said, _CLIENTS)))
    if advised(message) == "handshake":
        return Failure("handshake", TransportError(_sentence(channel, said, "Try again.")))
    return Failure("fail", _final(message, channel, code, lower, said))


def ended_by_advice() -> Failure:
    """The meaning of a connect that succeeds and advises a handshake: the session is over."""
    said = "it answered /meta/connect and advised a new handshake"
    return Failure(
        "handshake",
        TransportError(
            f"The Streaming API ended the session: {said}. Is there a proxy that sends each "
            "request to another server?"
        ),
    )


def failure_of_status(status: int, body: str) -> Failure:
    """The meaning of an HTTP status other than success."""
    said = f"{status}::{' '.join(body.split())[:100] or 'without a text'}"
    if status == 401:
        return Failure("log in", AuthenticationError(_sentence("a request", said, _LOG_IN)))
    remedy = "Try again later." if org_http.passes(status) else _OTHERS
    return Failure("wait", TransportError(_sentence("a request", said, remedy)))


def messages_of(
    status: int, body: str, loads: Callable[[str], Any] = json.loads
) -> list[tuple[Message, str]] | Failure:
    """Read an answer's messages, each with its own JSON; or the failure of one that has none.

    An error of the protocol comes in messages, with any status below 500.
    """
    if status == 401 or status >= 500:
        return failure_of_status(status, body)
    try:
        return read(body, loads)
    except TransportError as error:
        return Failure("wait", error) if 200 <= status < 300 else failure_of_status(status, body)


def reason(message: Message) -> str:
    """The error of a refused message, as `code::text`."""
    ext = message.get("ext")
    sfdc = ext.get("sfdc") if isinstance(ext, dict) else None
    failure = sfdc.get("failureReason") if isinstance(sfdc, dict) else None
    return str(failure or message.get("error") or "no reason given")


def advised(message: Message) -> str:
    """The advice on how to reconnect: `retry`, `handshake`, `none`; empty without advice."""
    advice = message.get("advice")
    return str(advice.get("reconnect", "")) if isinstance(advice, dict) else ""


BETWEEN = (502, 504)
"""Statuses of a gateway that did not get, or did not pass on, the service's answer."""
_OTHERS = "Is there a proxy or a sign-on page between?"
_LOG_IN = "Check the connection's login and the user's permission API Enabled."
_CLIENTS = (
    "Other clients of the org use its connections, or Salesforce is busy: end those that are not "
    "needed, and try again."
)
_REPLAY = (
    "Set replay_fallback, or set the position: events older than the retention are gone (24 hours "
    "for PushTopic and generic events, 72 hours for others)."
)
_CHANNEL = (
    "Check the channel's spelling and that the connection's user may read it. A PushTopic is "
    "/topic/Name, a generic channel /u/Name."
)


def _final(message: Message, channel: str, code: str, text: str, said: str) -> SfEventsError:
    if "daily limit exceeded" in text:
        remedy = "The org's daily allowance of events is used up; it renews over 24 hours."
        return QuotaExceededError(_sentence(channel, said, remedy))
    if "replayid" in text.replace(" ", "") and code == "400":
        return ReplayIdRefusedError(_sentence(channel, said, _REPLAY))
    if message.get("channel") == SUBSCRIBE:
        return TopicError(_sentence(channel, said, _CHANNEL))
    if message.get("channel") == HANDSHAKE and code == "403":
        return AuthenticationError(_sentence(channel, said, _LOG_IN))
    return ConfigurationError(_sentence(channel, said, "Check the connection and the API version."))


def _sentence(channel: str, said: str, remedy: str) -> str:
    return f"The Streaming API refused {channel}: {said.strip().rstrip('.')}. {remedy}"
