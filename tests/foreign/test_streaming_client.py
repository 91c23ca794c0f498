from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator
from tests.foreign.conftest import publish_numbers
from tests.harness.foreign_clients import ForeignClient, ForeignError, Program, python_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.foreign.conftest import Start

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    """An emulator reached by name, because aiohttp keeps no cookies of an IP address."""
    with Emulator(tls=True, host="localhost") as bus:
        yield bus
        bus.check()


def _program(driver: str, folder: Path, ca_file: str) -> Program:
    """Program whose HTTP library trusts the file of Python's `ssl` variable."""
    made = python_program(driver, folder, ca_file)
    return replace(made, environment={**made.environment, "SSL_CERT_FILE": ca_file})


@pytest.fixture
def client(start: Start) -> ForeignClient:
    """`aiosfstream-ng`, not logged in."""
    return start(_program, "aiosfstream_client.py")


def _config(bus: Emulator, **changed: str) -> dict[str, str]:
    org = bus.org
    return {
        "login_url": bus.login_url,
        "consumer_key": org.consumer_key,
        "consumer_secret": org.consumer_secret,
        "username": org.username,
        "password": f"{org.password}{org.security_token}",
        **changed,
    }


def _numbers(client: ForeignClient, count: int) -> list[Any]:
    return [event["payload"]["Number__c"] for event in client.wait("event", count)]


def test_what_is_there_and_what_comes(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """After an unknown replay id the client falls back on all events."""
    places = publish_numbers(bus, topic, "1", "2")
    client.order("open", config=_config(bus), replay_ids={topic: 82})
    client.order("subscribe", topic=topic)
    assert _numbers(client, 2) == ["1", "2"]
    places += publish_numbers(bus, topic, "3")
    assert _numbers(client, 3) == ["1", "2", "3"]
    assert [event["replay_id"] for event in client.wait("event")] == places
    assert client.order("replay_ids") == {topic: places[-1]}
    assert bus.deliveries(topic) == 3


def test_after_a_replay_id(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """A later run of the client continues after its last event."""
    places = publish_numbers(bus, topic, "1", "2", "3")
    client.order("open", config=_config(bus), replay_ids={topic: places[0]})
    client.order("subscribe", topic=topic)
    assert _numbers(client, 2) == ["2", "3"]


def test_a_token_that_is_revoked(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """After a revocation the client logs in again and loses nothing."""
    client.order("open", config=_config(bus), replay_ids={})
    client.order("subscribe", topic=topic)
    bus.expire_tokens()
    publish_numbers(bus, topic, "1")
    assert _numbers(client, 1) == ["1"]


def test_a_session_that_is_lost(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """After a lost session the client resumes without loss or duplicates."""
    client.order("open", config=_config(bus), replay_ids={})
    client.order("subscribe", topic=topic)
    publish_numbers(bus, topic, "1")
    assert _numbers(client, 1) == ["1"]
    bus.fail_next("cometd", status="NOT_FOUND")
    publish_numbers(bus, topic, "2")
    _numbers(client, 2)
    publish_numbers(bus, topic, "3")
    assert _numbers(client, 3) == ["1", "2", "3"]
    assert bus.faults() == ()


def test_it_closes_while_a_poll_is_held(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """`close` ends the session; an iteration in another task is not notified."""
    client.order("open", config=_config(bus), replay_ids={})
    client.order("subscribe", topic=topic)
    publish_numbers(bus, topic, "1")
    assert _numbers(client, 1) == ["1"]
    client.order("close")
    bus.wait_open_streams(0)
    assert client.order("is_receiving") is True


def test_a_refused_login(bus: Emulator, client: ForeignClient) -> None:
    """The login's reason reaches the caller."""
    with pytest.raises(ForeignError, match="AuthenticationError"):
        client.order("open", config=_config(bus, password="wrong"), replay_ids={})
