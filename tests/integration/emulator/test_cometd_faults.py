"""Ordered faults of the Streaming API: tokens, sessions, a busy server, a moved org."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator.errors import EmulatorError
from tests.integration.emulator.bayeux import UNKNOWN, Message, opened, values

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator

INVALID = "401::Authentication invalid"
DENIED = "403::Handshake denied"
BUSY = "503::Server is too busy. Please try your request again later."


def _reason(message: Message) -> Any:
    return message["ext"]["sfdc"]["failureReason"]


def test_a_token_is_revoked_while_a_connect_is_held(sfevents_emulator: Emulator) -> None:
    """A revoked token ends a held connect; another token continues without loss."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    with opened(bus) as client:
        client.subscribe(topic)
        held = client.begin_connect()
        client.wait_held(bus)
        bus.revoke(client.token)
        [said] = held.result(20)
        assert said == {
            "clientId": client.client_id,
            "advice": {"reconnect": "none", "interval": 0},
            "channel": "/meta/connect",
            "id": said["id"],
            "error": INVALID,
            "successful": False,
        }
        assert client.subscribe(topic)["error"] == INVALID
        assert _reason(client.handshake()) == INVALID
        bus.publish(topic, [{"N__c": 1}])
        token = bus.connection("session")["extra"]["session_token"]
        client.http.headers["Authorization"] = f"Bearer {token}"
        client.client_id = said["clientId"]
        assert values(client.take(1), "N__c") == [1]


def test_a_session_does_not_expire_while_connected(sfevents_emulator: Emulator) -> None:
    """A connected client's token does not expire."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    with opened(bus) as client:
        client.subscribe(topic)
        bus.clock.advance(hours=30)
        bus.publish(topic, [{"N__c": 1}])
        assert values(client.take(1), "N__c") == [1]
        bus.expire_tokens()
        assert client.connect()[0]["error"] == INVALID


def test_a_token_expires_before_the_handshake(sfevents_emulator: Emulator) -> None:
    """A token without a connected client expires."""
    with opened(sfevents_emulator) as client:
        client.say(client.message("/meta/disconnect"))
        sfevents_emulator.clock.advance(hours=30)
        assert _reason(client.handshake()) == INVALID


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        ("UNAUTHENTICATED", INVALID, INVALID),
        ("NOT_FOUND", UNKNOWN, BUSY),
        ("UNAVAILABLE", BUSY, BUSY),
        (
            "RESOURCE_EXHAUSTED",
            "403::Organization total events daily limit exceeded",
            "403::To protect all customers from excessive use and Denial of Service attacks, we "
            "limit the number of "
            "simultaneous connections per server. Your request has been denied because this limit "
            "has been exceeded. "
            "Please try your request again later.",
        ),
    ],
)
def test_requests_that_fail_by_order(
    sfevents_emulator: Emulator, status: str, error: str, reason: str
) -> None:
    """After the ordered successes, a connect and a handshake fail in their own forms."""
    bus = sfevents_emulator
    bus.fail_next("cometd", status=status, after=2)
    with opened(bus) as client:
        assert client.connect()[0]["error"] == error
        assert bus.faults() == ()
        bus.fail_next("cometd", status=status)
        said = client.handshake()
        assert (said["error"], _reason(said)) == (DENIED, reason)
        client.open()


def test_a_session_is_lost_by_order(sfevents_emulator: Emulator) -> None:
    """A session lost by order stays lost with its subscriptions."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    with opened(bus) as client:
        client.subscribe(topic)
        bus.fail_next("cometd", status="NOT_FOUND")
        assert client.connect()[0]["error"] == UNKNOWN
        assert client.subscribe(topic)["error"] == UNKNOWN
        assert bus.open_streams == 0


def test_a_busy_server_says_why(sfevents_emulator: Emulator) -> None:
    """A busy server states its reason in `ext`, and the session continues."""
    bus = sfevents_emulator
    with opened(bus) as client:
        bus.fail_next("cometd")
        [said] = client.connect()
        assert (_reason(said), said["clientId"]) == (BUSY, client.client_id)
        topic = bus.define_event("Order__e", {})
        assert client.subscribe(topic)["successful"]


def test_connections_are_not_cut(sfevents_emulator: Emulator) -> None:
    """An order to cut a connection is refused for the Streaming API."""
    with pytest.raises(EmulatorError, match="cometd is HTTP"):
        sfevents_emulator.fail_next("cometd", how="reset")


def test_an_org_that_moves(sfevents_emulator: Emulator) -> None:
    """A move of the org ends the session and its held connect."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    [before] = bus.publish(topic, [{"N__c": 1}])
    with opened(bus) as client:
        client.subscribe(topic)
        held = client.begin_connect()
        client.wait_held(bus)
        bus.reset_replay_ids()
        assert held.result(20)[0]["error"] == UNKNOWN
        client.open()
        old = int.from_bytes(before[:8], "big")
        assert "was invalid" in client.subscribe(topic, old)["error"]
        client.subscribe(topic, -2)
        assert values(client.take(1), "N__c") == [1]
