"""Meaning of the Streaming API's documented errors."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.streaming.bayeux_errors import failure_of, failure_of_status

ON_CONNECT = {"channel": "/meta/connect", "successful": False}
ON_SUBSCRIBE = {"channel": "/meta/subscribe", "subscription": "/topic/A", "successful": False}
ON_HANDSHAKE = {
    "channel": "/meta/handshake",
    "error": "403::Handshake denied",
    "advice": {"reconnect": "none"},
    "successful": False,
}


def denied(reason: str) -> dict[str, Any]:
    return {**ON_HANDSHAKE, "ext": {"sfdc": {"failureReason": reason}}}


@pytest.mark.parametrize(
    ("message", "remedy", "error"),
    [
        ({**ON_CONNECT, "error": "401::Authentication invalid"}, "log in", AuthenticationError),
        (denied("401::Authentication invalid"), "log in", AuthenticationError),
        (denied("401::Request requires authentication"), "log in", AuthenticationError),
        ({**ON_CONNECT, "error": "403::Unknown client"}, "handshake", TransportError),
        (
            {**ON_CONNECT, "error": "402::Unknown", "advice": {"reconnect": "handshake"}},
            "handshake",
            TransportError,
        ),
        (
            {
                **ON_CONNECT,
                "error": "400::Client 1 has established a session, but no X cookie present",
            },
            "handshake",
            TransportError,
        ),
        (
            {**ON_SUBSCRIBE, "error": "403::Client has not completed handshake"},
            "handshake",
            TransportError,
        ),
        (
            denied("503::Server is too busy. Please try your request again later."),
            "wait",
            TransportError,
        ),
        (denied("403::Organization concurrent user limit exceeded"), "wait", TransportError),
        (
            denied(
                "403::To protect all customers from excessive use, we limit the number of "
                "simultaneous connections per server."
            ),
            "wait",
            TransportError,
        ),
        (
            {**ON_CONNECT, "error": "403::Organization total events daily limit exceeded"},
            "fail",
            QuotaExceededError,
        ),
        (
            {
                **ON_SUBSCRIBE,
                "error": "400::The replayId {82} you provided was invalid.  Please provide",
            },
            "fail",
            ReplayIdRefusedError,
        ),
        ({**ON_SUBSCRIBE, "error": "404::Unknown channel"}, "fail", TopicError),
        ({**ON_SUBSCRIBE, "error": "403::Restricted channel"}, "fail", TopicError),
        (
            {**ON_SUBSCRIBE, "error": "403::Subscription limit exceeded for this topic"},
            "fail",
            TopicError,
        ),
        (denied("403::User not enabled for streaming"), "fail", AuthenticationError),
        (ON_HANDSHAKE, "fail", AuthenticationError),
        ({**ON_CONNECT, "error": "400::Invalid connection type {x}"}, "fail", ConfigurationError),
        ({**ON_CONNECT}, "fail", ConfigurationError),
    ],
)
def test_what_an_error_asks_for(message: dict[str, Any], remedy: str, error: type) -> None:
    """Each documented error has one remedy and one type, and its text has the service's own."""
    found = failure_of(message)
    assert (found.remedy, type(found.error)) == (remedy, error)
    assert (message.get("subscription") or message["channel"]) in str(found.error)


@pytest.mark.parametrize(
    ("status", "remedy"), [(401, "log in"), (429, "wait"), (500, "wait"), (504, "wait")]
)
def test_a_status_without_messages(status: int, remedy: str) -> None:
    """An HTTP error of a proxy or a server that is down is named by its status."""
    found = failure_of_status(status, "  Bad\nGateway ")
    assert found.remedy == remedy
    assert f"{status}::Bad Gateway" in str(found.error)
