"""The Streaming API over a real socket: handshake, cookies, long polls and ends of sessions."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any

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


@pytest.mark.parametrize(
    ("knobs", "advice"),
    [
        (Knobs(), {"interval": 0, "timeout": 110_000, "reconnect": "retry"}),
        (Knobs(cometd_time_scale=0.5), {"interval": 0, "timeout": 55_000, "reconnect": "retry"}),
        (
            Knobs(cometd_multiple_clients=True),
            {"interval": 2000, "multiple-clients": True, "reconnect": "retry", "timeout": 110_000},
        ),
    ],
    ids=["live", "scaled", "several"],
)
def test_first_connect(knobs: Knobs, advice: dict[str, Any]) -> None:
    """The first connect is answered at once, with the knobs' advice."""
    with Emulator(knobs=knobs) as bus, closing(Cometd(bus)) as client:
        client.handshake()
        [said] = client.connect()
        assert said["advice"] == advice
        assert said["clientId"] == client.client_id


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


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/cometd", "400::API version in the URI is mandatory. URI format: '/cometd/66.0'"),
        (
            "/cometd/replay/22.0",
            "400::Unsupported API version. Only API versions '37.0' and later are supported. URI "
            "format: '/cometd/66.0'",
        ),
    ],
)
def test_versions(client: Cometd, path: str, error: str) -> None:
    """The URL must name a served version."""
    client.path = path
    said = client.handshake()
    assert (said["error"], said["ext"]["sfdc"]["failureReason"]) == (
        "403::Handshake denied",
        error,
    )


@pytest.mark.parametrize(("lowest", "served"), [(23.0, True), (37.0, False)])
def test_lowest_version_by_knob(lowest: float, served: bool) -> None:
    """Unsupported versions are routed to the newest one or refused, by knob."""
    with Emulator(knobs=Knobs(cometd_min_version=lowest)) as bus, closing(Cometd(bus)) as client:
        client.path = "/cometd/36.0"
        assert client.handshake()["successful"] is served


def test_whose_token_is_good(sfevents_emulator: Emulator) -> None:
    """A token may have the scheme Bearer, OAuth or none; a denied handshake states why."""
    bus = sfevents_emulator
    token, other = (
        bus.connection("session", org)["extra"]["session_token"] for org in (bus.org, bus.add_org())
    )
    for header, reason in (
        (f"Bearer {token}", None),
        (f"OAuth {token}", None),
        (token, None),
        (other, "401::Authentication invalid"),
        ("nope", "401::Authentication invalid"),
        (f"Basic {token}", "401::Request requires authentication"),
        ("", "401::Request requires authentication"),
        ("Bearer nope", "401::Authentication invalid"),
        (f"Bearer {other}", "401::Authentication invalid"),
    ):
        with closing(Cometd(bus, headers={"Authorization": header})) as client:
            said = client.handshake()
        assert said["successful"] is (reason is None)
        if reason:
            assert said["ext"]["sfdc"]["failureReason"] == reason
            assert said["advice"] == {"reconnect": "none"}


def test_cookies_are_required(sfevents_emulator: Emulator) -> None:
    """A missing cookie is named; without the routing cookie the client is unknown."""
    with opened(sfevents_emulator) as client:
        browser = client.http.cookies["BAYEUX_BROWSER"]
        client.http.cookies.clear()
        [said] = client.connect()
        assert said["error"] == (
            f"400::Client {client.client_id} has established a session, but no BAYEUX_BROWSER "
            "cookie present"
        )
        client.http.cookies.set("BAYEUX_BROWSER", browser)
        [said] = client.connect()
        assert said == {
            "advice": {"interval": 0, "reconnect": "handshake"},
            "channel": "/meta/connect",
            "id": said["id"],
            "error": UNKNOWN,
            "successful": False,
        }


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


def test_who_does_not_come_back_is_lost() -> None:
    """A lost session loses its subscriptions; a new handshake starts without them."""
    with Emulator(knobs=QUICK) as bus, opened(bus) as client:
        topic = bus.define_event("Order__e", {})
        client.subscribe(topic)
        bus.wait_open_streams(1)
        bus.wait_open_streams(0)
        assert client.connect()[0]["error"] == UNKNOWN
        client.open()
        bus.publish(topic, [{}])
        assert [one["channel"] for one in client.connect()] == ["/meta/connect"]
        assert [one.ended for one in bus.subscriptions] == ["CANCELLED"]


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
    """A disconnect answers the held connect and ends the session."""
    with opened(sfevents_emulator) as client:
        client.subscribe(topic)
        held = client.begin_connect()
        client.wait_held(sfevents_emulator)
        [said] = client.say(client.message("/meta/disconnect"))
        assert said["successful"]
        assert held.result(20)[0]["successful"]
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


def test_sizes_and_bodies(client: Cometd) -> None:
    """Bodies have at most 32,768 bytes; invalid ones are refused as a whole."""
    for size, status in ((32_768, 200), (32_769, 413)):
        body = b'[{"channel":"/meta/handshake","pad":"%s"}]'
        padded = body % (b"x" * (size - len(body) + 2))
        answer = client.http.post(client.path, content=padded)
        assert answer.status_code == status
        if status == 413:
            assert answer.json()[0]["error"] == "413::Maximum Request Size Exceeded"
    assert client.http.post(client.path, content=b"{").status_code == 400


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


def test_concurrent_clients_are_limited() -> None:
    """An org's limit denies further handshakes until a client leaves."""
    with (
        Emulator(knobs=Knobs(cometd_max_clients=1)) as bus,
        opened(bus) as client,
        closing(Cometd(bus)) as second,
        closing(Cometd(bus, org=bus.add_org())) as elsewhere,
    ):
        assert second.handshake()["ext"]["sfdc"]["failureReason"] == (
            "403::Organization concurrent user limit exceeded"
        )
        assert elsewhere.handshake()["successful"]
        client.say(client.message("/meta/disconnect"))
        assert second.handshake()["successful"]


def test_requests_are_recorded(sfevents_emulator: Emulator) -> None:
    """Each request is recorded with its messages and header names."""
    with opened(sfevents_emulator):
        calls = sfevents_emulator.requests
    assert [(one.rpc, one.subject) for one in calls] == [
        ("cometd", "/meta/handshake"),
        ("cometd", "/meta/connect"),
    ]
    assert "cookie" in calls[1].metadata
