from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.foreign.conftest import npm_config
from tests.harness.foreign_clients import ForeignError, node_program

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start

pytestmark = pytest.mark.full

WAYS = ("user-supplied", "username-password", "oauth-client-credentials", "oauth-jwt-bearer")


@pytest.mark.parametrize("auth", WAYS)
def test_each_login_leads_to_the_bus(bus: Emulator, topic: str, npm: Start, auth: str) -> None:
    """Each of the client's four logins receives the org's events."""
    [replay_id] = bus.publish(topic, [{"Number__c": "A-1", "Amount__c": 12.5}])
    client = npm(auth)
    client.order("subscribeFromEarliest", topic=topic, count=1)
    client.wait("lastEvent")
    [event] = client.wait("event")
    assert event["data"]["replayId"] == int.from_bytes(replay_id[:8], "big")
    assert event["data"]["payload"]["Number__c"] == "A-1"


@pytest.mark.parametrize(
    ("auth", "wrong", "why"),
    [
        ("username-password", {"userToken": ""}, "INVALID_LOGIN: Invalid username, password"),
        ("oauth-client-credentials", {"clientSecret": "x"}, "HTTP 400 .*invalid client credential"),
        ("oauth-jwt-bearer", {"username": "x@example.com"}, "HTTP 400 .*hasn't approved"),
    ],
    ids=WAYS[1:],
)
def test_a_refused_login_says_why(npm: Start, auth: str, wrong: dict[str, str], why: str) -> None:
    """The client's error has Salesforce's reason."""
    with pytest.raises(ForeignError, match=f"Failed to authenticate with Salesforce.*{why}"):
        npm(auth, **wrong)


def test_client_credentials_on_the_login_host(bus: Emulator, npm: Start) -> None:
    """Client credentials are accepted by My Domain only, as on Salesforce."""
    with pytest.raises(ForeignError, match="request not supported on this domain"):
        npm("oauth-client-credentials", loginUrl=bus.login_url)


def test_a_dead_session_is_an_error_of_the_stream(bus: Emulator, topic: str, npm: Start) -> None:
    """An invalid session ends the stream with Salesforce's code."""
    config = npm_config(bus, "user-supplied")
    client = npm("user-supplied", accessToken=config["accessToken"])
    bus.revoke(config["accessToken"])
    client.order("subscribe", topic=topic, count=1)
    [error] = client.wait("error")
    assert (error["status"], error["code"]) == (
        16,
        "sfdc.platform.eventbus.grpc.service.auth.error",
    )


def test_a_client_that_does_not_trust_the_certificate(
    bus: Emulator, topic: str, start: Start
) -> None:
    """A client without the certificate is refused unless it skips verification."""
    client = start(node_program, "npm_client.mjs", trusted=False)
    config = npm_config(bus, "oauth-client-credentials")
    client.order("connect", config=config)
    client.order("subscribe", topic=topic, count=1)
    [error] = client.wait("error")
    assert "unable to verify the first certificate" in error["why"]

    bus.publish(topic, [{"Number__c": "A-1"}])
    client.order("connect", config={**config, "rejectUnauthorizedSsl": False})
    client.order("subscribeFromEarliest", topic=topic, count=1)
    client.wait("lastEvent")
