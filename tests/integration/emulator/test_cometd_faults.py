"""Ordered faults of the Streaming API: tokens, sessions, a busy server, a moved org."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
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


def test_an_answer_breaks_off(sfevents_emulator: Emulator) -> None:
    """A connection that closes in mid-answer loses the events of this session, not of the bus."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    bus.publish(topic, [{"N__c": 1}])
    with opened(bus) as client:
        client.subscribe(topic, -2)
        bus.fail_next("cometd", how="reset")
        with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
            client.connect()
        assert bus.deliveries(topic) == 1
        client.subscribe(topic, -2)
        assert values(client.take(1), "N__c") == [1]


def test_a_proxy_holds_an_answer_back(sfevents_emulator: Emulator) -> None:
    """A client that gives up before a held answer comes has lost its events for this session."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    bus.publish(topic, [{"N__c": 1}])
    with opened(bus) as client:
        client.subscribe(topic, -2)
        bus.fail_next("cometd", how="hold", after_seconds=0.5)
        with pytest.raises(httpx.ReadTimeout):
            client.http.post(client.path, json=[client.connecting()], timeout=0.2)
        assert bus.deliveries(topic) == 1
        bus.publish(topic, [{"N__c": 2}])
        bus.fail_next("cometd", how="hold", after_seconds=0.01)
        assert values(client.take(1), "N__c") == [2]


def test_a_cookie_is_lost(sfevents_emulator: Emulator) -> None:
    """An answer may take away the cookie that leads to the session's server."""
    bus = sfevents_emulator
    with opened(bus) as client:
        topic = bus.define_event("Order__e", {"N__c": "Double"})
        bus.fail_next("cometd", how="cookies")
        assert client.subscribe(topic)["successful"]
        assert client.connect()[0]["error"] == UNKNOWN
        client.open()


def test_events_repeated_and_re_ordered(sfevents_emulator: Emulator) -> None:
    """Ordered repetitions and re-orderings come within one response, and count as delivered."""
    bus = sfevents_emulator
    topic = bus.define_event("Order__e", {"N__c": "Double"})
    bus.publish(topic, [{"N__c": one} for one in (1, 2, 3, 4)])
    with opened(bus) as client:
        client.subscribe(topic, -2)
        bus.repeat_next()
        bus.reorder_next(3)
        assert values(client.connect()[:-1], "N__c") == [3, 3, 2, 1, 4]
        bus.publish(topic, [{"N__c": 5}])
        assert values(client.take(1), "N__c") == [5]
    assert bus.deliveries(topic) == 6


def test_a_restart_loses_sessions(sfevents_emulator: Emulator) -> None:
    """After a restart no client is known, whether its connect was held or not."""
    bus = sfevents_emulator
    with opened(bus) as held, opened(bus) as idle:
        poll = held.begin_connect()
        held.wait_held(bus)
        bus.restart()
        assert poll.result(20)[0]["error"] == UNKNOWN
        assert idle.connect()[0]["error"] == UNKNOWN
        idle.open()


@pytest.mark.parametrize(
    ("rpc", "how", "says"),
    [("cometd", "goaway", "reset, hold, cookies"), ("rest", "reset", "rest is HTTP")],
)
def test_cuts_that_cannot_be(sfevents_emulator: Emulator, rpc: str, how: str, says: str) -> None:
    """HTTP knows no frames, so an order for them is refused."""
    with pytest.raises(EmulatorError, match=says):
        sfevents_emulator.fail_next(rpc, how=how)


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
