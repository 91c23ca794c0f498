"""The Streaming API over a real socket: handshake, cookies, long polls and ends of sessions."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.bayeux import UNKNOWN, Cometd, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = Knobs(
    cometd_time_scale=0.01
)  # about a second for a poll, less than half a one to come back


@pytest.fixture
def topic(sfevents_emulator: Emulator) -> str:
    return sfevents_emulator.define_event("Order__e", {"N__c": "Double"})


@pytest.fixture
def client(sfevents_emulator: Emulator) -> Iterator[Cometd]:
    """A client before its handshake."""
    with closing(Cometd(sfevents_emulator)) as client:
        yield client


def test_handshake(client: Cometd) -> None:
    """A handshake returns a client id, the extensions, no advice, and two cookies."""
    answer = client.post({"channel": "/meta/handshake", "id": "1", "version": "1.0"})
    [said] = answer.json()
    assert said["clientId"].isalnum()
    assert said == {
        "ext": {"replay": True, "payload.format": True},
        "minimumVersion": "1.0",
        "clientId": said["clientId"],
        "supportedConnectionTypes": ["long-polling"],
        "channel": "/meta/handshake",
        "id": "1",
        "version": "1.0",
        "successful": True,
    }
    cookies: SimpleCookie = SimpleCookie()
    for header in answer.headers.get_list("set-cookie"):
        cookies.load(header)
    assert set(cookies) == {"BAYEUX_BROWSER", "sfdc-stream"}
    assert cookies["sfdc-stream"].value.startswith("!")
    left = parsedate_to_datetime(cookies["sfdc-stream"]["expires"]) - datetime.now(UTC)
    assert timedelta(hours=2.9) < left < timedelta(hours=3.1)


def test_later_connects_are_held() -> None:
    """A later connect is held for its full time, without advice, and keeps the session."""
    with Emulator(knobs=QUICK) as bus, opened(bus) as client:
        topic = bus.define_event("Order__e", {})
        [said] = client.connect()
        assert said == {
            "clientId": client.client_id,
            "channel": "/meta/connect",
            "id": said["id"],
            "successful": True,
        }
        assert client.subscribe(topic)["successful"]


def test_an_event_ends_a_connect_that_is_held(sfevents_emulator: Emulator, topic: str) -> None:
    """A published event ends a held connect and precedes its answer."""
    with opened(sfevents_emulator) as client:
        client.subscribe(topic)
        held = client.begin_connect()
        client.wait_held(sfevents_emulator)
        sfevents_emulator.publish(topic, [{"N__c": 1}])
        event, said = held.result(20)
        assert (event["channel"], event["data"]["payload"]["N__c"]) == (topic, 1.0)
        assert said["channel"] == "/meta/connect"


def test_a_subscription_ends_a_connect_that_is_held(
    sfevents_emulator: Emulator, topic: str
) -> None:
    """A subscription with retained events ends a held connect."""
    sfevents_emulator.publish(topic, [{"N__c": 1}])
    with opened(sfevents_emulator) as client:
        held = client.begin_connect()
        client.wait_held(sfevents_emulator)
        client.subscribe(topic, -2)
        assert [one["channel"] for one in held.result(20)] == [topic, "/meta/connect"]


def test_connect_with_other_messages(sfevents_emulator: Emulator, topic: str) -> None:
    """Each message of a request is answered in order, and a connect among them is not held."""
    with opened(sfevents_emulator) as client:
        answers = client.say(
            client.message("/meta/subscribe", subscription=topic), client.connecting()
        )
        assert [(one["channel"], one["successful"]) for one in answers] == [
            ("/meta/subscribe", True),
            ("/meta/connect", True),
        ]


def test_a_newer_connect_takes_over(sfevents_emulator: Emulator, topic: str) -> None:
    """A newer connect ends the held one without events and receives them."""
    with opened(sfevents_emulator) as client:
        client.subscribe(topic)
        both = {client.begin_connect(), client.begin_connect()}
        [answered], _ = wait(both, timeout=20, return_when=FIRST_COMPLETED)
        assert [one["channel"] for one in answered.result()] == ["/meta/connect"]
        sfevents_emulator.publish(topic, [{"N__c": 1}])
        assert sorted(len(one.result(20)) for one in both) == [1, 2]


def test_several_clients_in_one_browser(sfevents_emulator: Emulator) -> None:
    """Clients of one browser share cookies and have sessions of their own."""
    with opened(sfevents_emulator) as client:
        first = client.client_id
        answer = client.post({"channel": "/meta/handshake", "id": "1", "version": "1.0"})
        assert "set-cookie" not in answer.headers
        client.client_id = answer.json()[0]["clientId"]
        assert client.connect()[0]["clientId"] != first
        [said] = client.connect(clientId=first, advice={"timeout": 0})
        assert (said["clientId"], said["successful"]) == (first, True)


def test_a_cookie_that_expires() -> None:
    """A client whose cookie has expired is unknown."""
    with Emulator(knobs=Knobs(cometd_cookie_hours=0)) as bus, closing(Cometd(bus)) as client:
        client.handshake()
        assert client.connect()[0]["error"] == UNKNOWN


def test_events_of_a_client_that_hangs_up_are_kept(sfevents_emulator: Emulator, topic: str) -> None:
    """Events are kept for a client that closed its connection."""
    bus = sfevents_emulator
    with opened(bus) as client:
        client.subscribe(topic)
        with pytest.raises(Exception, match="timed out"):
            client.http.post(client.path, json=[client.connecting()], timeout=0.1)
        client.wait_held(bus, held=False)
        bus.publish(topic, [{"N__c": 1}])
        assert len(client.take(1)) == 1


def test_subscribing_again(sfevents_emulator: Emulator, topic: str) -> None:
    """A repeated subscription starts anew and has an entry of its own in the call log."""
    bus = sfevents_emulator
    bus.publish(topic, [{"N__c": 1}])
    with opened(bus) as client:
        client.subscribe(topic, -1)
        client.subscribe(topic, -2)
        assert len(client.take(1)) == 1
        seen = [(one.start, one.delivered, one.ended) for one in bus.subscriptions]
        assert seen == [("latest", 0, "OK"), ("earliest", 1, "")]


def test_disconnect(sfevents_emulator: Emulator, topic: str) -> None:
    """A disconnect answers the held connect, with advice to stay away, and ends the session."""
    with opened(sfevents_emulator) as client:
        client.subscribe(topic)
        held = client.begin_connect()
        client.wait_held(sfevents_emulator)
        [said] = client.say(client.message("/meta/disconnect"))
        assert said["successful"]
        [last] = held.result(20)
        assert (last["successful"], last["advice"]) == (True, {"reconnect": "none"})
        assert client.connect()[0]["error"] == UNKNOWN
        sfevents_emulator.wait_open_streams(0)


def test_stopping_answers_what_is_held() -> None:
    """A stop of the emulator answers held connects."""
    bus = Emulator().start()
    with opened(bus) as client:
        held = client.begin_connect()
        client.wait_held(bus)
        bus.stop()
        assert held.result(20)[0]["successful"]


def test_messages_that_make_no_sense(sfevents_emulator: Emulator, topic: str) -> None:
    """Each invalid message has its own error."""
    with opened(sfevents_emulator) as client:
        assert client.connect(connectionType="websocket")[0]["error"] == (
            "400::Invalid connection type {websocket}"
        )
        for channel, error in (
            (topic, "400::Events cannot be published over CometD"),
            ("/meta/other", "404::Unknown channel"),
        ):
            [said] = client.say(client.message(channel, data={}))
            assert (said["channel"], said["error"]) == (channel, error)


def test_requests_are_recorded(sfevents_emulator: Emulator) -> None:
    """Each request is recorded with its messages and header names."""
    with opened(sfevents_emulator):
        calls = sfevents_emulator.requests
    assert [(one.rpc, one.subject) for one in calls] == [
        ("cometd", "/meta/handshake"),
        ("cometd", "/meta/connect"),
    ]
    assert "cookie" in calls[1].metadata
