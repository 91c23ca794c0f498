"""Refusals of the Streaming API. No event is delivered here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.polling import Poller, polling

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

INVALID = "400::The replayId {82} you provided was invalid."
REMEDY = "Please provide a valid ID, -2 to replay all events, or -1 to replay only new events."


def _denied(org: OrgUnderTest, **more: Any) -> str:
    """Reason of a denied handshake."""
    client = Poller(org, **more)
    with client.http:
        answer = client.handshake()
    assert (answer["successful"], answer["error"]) == (False, "403::Handshake denied")
    assert "clientId" not in answer
    return str(answer["ext"]["sfdc"]["failureReason"])


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"authorization": "Bearer wrong"}, "401::Authentication invalid"),
        ({}, "401::Request requires authentication"),
    ],
    ids=["wrong", "none"],
)
def test_a_handshake_needs_a_good_token(
    org: OrgUnderTest, headers: dict[str, str], why: str
) -> None:
    """A handshake with an invalid token has its reason in the answer's extension.

    Source: Streaming API guide (error codes), messages of live orgs.
    """
    assert _denied(org, headers=headers) == why


def test_the_url_has_a_version(org: OrgUnderTest) -> None:
    """A URL without a version is refused. Source: Streaming API guide (error codes)."""
    assert _denied(org, path="/cometd").startswith("400::API version in the URI is mandatory.")


def test_the_version_is_not_too_old(org: OrgUnderTest) -> None:
    """Version 22.0 is refused. Source: Streaming API guide (error codes)."""
    why = "400::Unsupported API version. Only API versions '37.0' and later"
    assert _denied(org, path="/cometd/22.0").startswith(why)


def test_versions_before_37_are_refused(org: OrgUnderTest) -> None:
    """Version 36.0 is refused. Source: Streaming API guide (error codes)."""
    why = "400::Unsupported API version. Only API versions '37.0' and later"
    assert _denied(org, path="/cometd/36.0").startswith(why)


def test_a_connect_is_for_known_clients(org: OrgUnderTest) -> None:
    """A connect with an unknown client id is refused.

    Source: Streaming API guide (error codes), messages of live orgs.
    """
    with polling(org) as client:
        [answer] = client.connect(clientId="3ll1unknown")
    assert answer["error"] == "403::Unknown client"
    assert answer["advice"] == {"interval": 0, "reconnect": "handshake"}


def test_a_subscription_needs_a_handshake(org: OrgUnderTest) -> None:
    """A subscription before a handshake is refused. Source: Streaming API guide (error codes)."""
    client = Poller(org)
    with client.http:
        assert client.subscribe(org.topic)["error"] == "403::Client has not completed handshake"


def test_a_session_needs_its_cookies(org: OrgUnderTest) -> None:
    """A missing cookie is named in the refusal. Source: Streaming API guide (error codes)."""
    with polling(org) as client:
        kept = dict(client.http.cookies)
        client.http.cookies.clear()
        [answer] = client.connect()
        client.http.cookies.update(kept)
    begin, _, end = answer["error"].partition(client.client_id)
    assert begin == "400::Client "
    assert end.startswith(" has established a session, but no ")
    assert end.endswith(" cookie present")


def test_there_is_long_polling_alone(org: OrgUnderTest) -> None:
    """A connection type other than long polling is refused.

    Source: Streaming API guide (error codes).
    """
    with polling(org) as client:
        [answer] = client.connect(connectionType="websocket")
    assert answer["error"].startswith("400::Invalid connection type")


@pytest.mark.parametrize(
    ("channel", "why"),
    [
        ("/event/No_Such__e", "400::The channel you requested to subscribe to doesn't exist"),
        ("No_Such__e", "400::Channel subscriptions must start with a leading '/'"),
        ("", "400::Channel name not specified"),
        ("/meta/connect", "403::Restricted channel"),
        ("/u/No_Such", "404::Unknown channel"),
    ],
    ids=["unknown", "no slash", "nothing", "of the protocol", "generic"],
)
def test_a_channel_that_is_not_there(org: OrgUnderTest, channel: str, why: str) -> None:
    """A subscription to a missing channel is refused, and the session continues.

    Source: Streaming API guide (error codes).
    """
    with polling(org) as client:
        answer = client.subscribe(channel)
        assert not answer["successful"]
        assert answer["error"].startswith(why)
        assert client.subscribe(org.topic)["successful"]


def test_an_unknown_replay_id(org: OrgUnderTest) -> None:
    """An unknown replay id is refused, with two spaces between the sentences.

    Source: messages of live orgs.
    """
    with polling(org) as client:
        assert client.subscribe(org.topic, 82)["error"] == f"{INVALID}  {REMEDY}"


def test_an_unknown_replay_id_with_one_space(org: OrgUnderTest) -> None:
    """An unknown replay id is refused, with one space as documented.

    Source: Streaming API guide (error codes).
    """
    with polling(org) as client:
        assert client.subscribe(org.topic, 82)["error"] == f"{INVALID} {REMEDY}"


def test_a_replay_map_for_another_channel(org: OrgUnderTest) -> None:
    """The replay map's key must be the subscription. Source: messages of live orgs."""
    with polling(org) as client:
        [answer] = client.say(
            "/meta/subscribe", subscription=org.topic, ext={"replay": {"/event/Other__e": -1}}
        )
    assert answer["error"].startswith(
        f"400::The replayId for channel {{{org.topic}}} wasn't found using the provided replay ID "
        "map"
    )


def test_events_are_not_published_over_it(org: OrgUnderTest) -> None:
    """Publishing is refused; the text is not documented. Source: Streaming API guide."""
    with polling(org) as client:
        answer = client.say(org.topic, data={"payload": {}})[-1]
    assert not answer["successful"]


def test_a_request_has_32768_bytes_at_most(org: OrgUnderTest) -> None:
    """A request above 32,768 bytes gets HTTP 413. Source: Streaming API guide (error codes)."""
    with polling(org) as client:
        answer = client.post({"channel": "/meta/handshake", "pad": "x" * 32_768})
    assert answer.status_code == 413


def test_a_revoked_token_ends_a_session(org: OrgUnderTest) -> None:
    """A revoked token ends a session, with the advice not to retry.

    Source: Streaming API guide, messages of live orgs.
    """
    with org.set_up("a token would have to be revoked") as other:
        assert other.emulator
        client = Poller(other)
        with client.http:
            client.handshake()
            other.emulator.revoke(other.headers["accesstoken"])
            [answer] = client.connect()
    assert answer["error"] == "401::Authentication invalid"
    assert answer["advice"]["reconnect"] == "none"


def test_clients_and_deliveries_have_their_limits(org: OrgUnderTest) -> None:
    """Both limits are 403, and gRPC's deliveries count here too.

    Source: Streaming API guide (error codes), Allocations page.
    """
    with org.set_up(
        "its allowances would have to be used up", cometd_max_clients=1, delivery_allocation=1
    ) as other:
        base = other.base()
        other.publish(other.event())
        with polling(other) as client:
            assert _denied(other) == "403::Organization concurrent user limit exceeded"
            with other.after(base, 1) as stream:
                stream.take(1)
            client.subscribe(other.topic)
            other.publish(other.event())
            *_, answer = client.connect()
            assert answer["error"] == "403::Organization total events daily limit exceeded"


def test_a_session_without_connects_is_lost(org: OrgUnderTest) -> None:
    """After 40 s without a connect the session and its subscriptions are lost.

    Source: Streaming API guide (clients and timeouts).
    """
    with org.set_up("it takes minutes", cometd_time_scale=0.005) as other:
        assert other.emulator
        client = Poller(other)
        with client.http:
            client.handshake()
            client.connect()
            client.subscribe(other.topic)
            other.emulator.wait_open_streams(1)
            other.emulator.wait_open_streams(0)
            [answer] = client.connect()
    assert answer["error"] == "403::Unknown client"
