"""Messages of the Streaming API have the form that live orgs sent."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.emulator.cometd import replies

CONNECT: dict[str, Any] = {"channel": "/meta/connect", "clientId": "3ll1", "id": "7"}
HANDSHAKE: dict[str, Any] = {"channel": "/meta/handshake", "id": "1"}
EXT = {"replay": True, "payload.format": True}


def test_handshake_without_advice() -> None:
    """A handshake's answer states the replay extension and has no advice."""
    assert replies.handshaken(HANDSHAKE, "3ll1") == {
        "ext": EXT,
        "minimumVersion": "1.0",
        "clientId": "3ll1",
        "supportedConnectionTypes": ["long-polling"],
        "channel": "/meta/handshake",
        "id": "1",
        "version": "1.0",
        "successful": True,
    }


def test_connect_with_advice_and_without() -> None:
    """The first connect's answer has advice; later answers have none."""
    advice = replies.first_advice(110_000, multiple_clients=False)
    assert advice == {"interval": 0, "timeout": 110_000, "reconnect": "retry"}
    plain = {"clientId": "3ll1", "channel": "/meta/connect", "id": "7", "successful": True}
    assert replies.accepted(CONNECT, advice) == {**plain, "advice": advice}
    assert replies.accepted(CONNECT) == plain


def test_advice_for_several_clients_in_one_browser() -> None:
    """The advice for several clients in a browser asks for two seconds between connects."""
    assert replies.first_advice(110_000, multiple_clients=True) == {
        "interval": 2000,
        "multiple-clients": True,
        "reconnect": "retry",
        "timeout": 110_000,
    }


def test_subscription_is_named_in_its_answer() -> None:
    """An answer names its subscription; an id that was not sent is left out."""
    asked = {"channel": "/meta/subscribe", "clientId": "c", "subscription": "/event/X__e"}
    assert replies.accepted(asked) == {**asked, "successful": True}
    assert replies.refused(asked, "403::No") == {**asked, "error": "403::No", "successful": False}


def test_token_that_is_no_longer_good() -> None:
    """An invalid token stops the client: in `error` on connect, in `ext` on the handshake."""
    assert replies.unauthenticated(CONNECT, replies.AUTHENTICATION_INVALID) == {
        "clientId": "3ll1",
        "advice": {"reconnect": "none", "interval": 0},
        "channel": "/meta/connect",
        "id": "7",
        "error": "401::Authentication invalid",
        "successful": False,
    }
    assert replies.unauthenticated(HANDSHAKE, replies.AUTHENTICATION_INVALID) == {
        "ext": {"sfdc": {"failureReason": "401::Authentication invalid"}, **EXT},
        "advice": {"reconnect": "none"},
        "channel": "/meta/handshake",
        "id": "1",
        "error": "403::Handshake denied",
        "successful": False,
    }


def test_lost_session() -> None:
    """A lost session's answer asks for a handshake and does not name the client."""
    assert replies.unknown_client(CONNECT) == {
        "advice": {"interval": 0, "reconnect": "handshake"},
        "channel": "/meta/connect",
        "id": "7",
        "error": "403::Unknown client",
        "successful": False,
    }


@pytest.mark.parametrize(
    ("status", "message", "error", "reason", "advice"),
    [
        ("UNAUTHENTICATED", CONNECT, "401::Authentication invalid", None, "none"),
        ("UNAUTHENTICATED", HANDSHAKE, "403::Handshake denied", "401::Authentication", "none"),
        ("NOT_FOUND", CONNECT, "403::Unknown client", None, "handshake"),
        ("NOT_FOUND", HANDSHAKE, "403::Handshake denied", "503::Server is too busy", "none"),
        (
            "RESOURCE_EXHAUSTED",
            CONNECT,
            "403::Organization total events daily limit exceeded",
            None,
            "none",
        ),
        ("RESOURCE_EXHAUSTED", HANDSHAKE, "403::Handshake denied", "403::To protect all", "none"),
        (
            "UNAVAILABLE",
            CONNECT,
            "503::Server is too busy. Please try your request again later.",
            "503::Server is too busy",
            None,
        ),
        ("INTERNAL", HANDSHAKE, "403::Handshake denied", "503::Server is too busy", "none"),
    ],
)
def test_orders(
    status: str, message: dict[str, Any], error: str, reason: str | None, advice: str | None
) -> None:
    """Each ordered status has its error, its reason and its advice."""
    said = replies.ordered(status, message)
    assert (said["error"], said["successful"]) == (error, False)
    found = said.get("ext", {}).get("sfdc", {}).get("failureReason")
    assert found is None if reason is None else str(found).startswith(reason)
    assert said.get("advice", {}).get("reconnect") == advice
