"""An emulator with its own certificate, and third-party clients in processes that trust it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.harness.foreign_clients import ForeignClient, node_program, python_program
from tests.harness.foreign_packages import ClientsMissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.harness.foreign_clients import Program

    Start = Callable[..., ForeignClient]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    """One emulator for all tests of a file; each test has topics of its own."""
    knobs = Knobs(
        keepalive_seconds=0.5,
        publish_keepalive_seconds=0.5,
        half_close_seconds=0.05,
        commit_response_seconds=0.2,
        slot_hold_seconds=0,
    )
    with Emulator(tls=True, knobs=knobs) as bus:
        yield bus
        bus.check()


@pytest.fixture
def topic(bus: Emulator) -> str:
    """A platform event that is the test's own."""
    fields = {"Number__c": "Text", "Amount__c": "Double"}
    return bus.define_event(f"Event{next(_numbers)}__e", fields)


def publish_numbers(bus: Emulator, topic: str, *numbers: str) -> list[int]:
    """Publish numbered events and return CometD's form of their replay ids."""
    found = bus.publish(topic, [{"Number__c": one} for one in numbers])
    return [int.from_bytes(one[:8], "big") for one in found]


@pytest.fixture
def start(bus: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a client that trusts the emulator; a missing client fails the test with its reason."""
    started: list[ForeignClient] = []

    def begin(program: Callable[..., Program], driver: str, **options: Any) -> ForeignClient:
        folder: Path = tmp_path_factory.mktemp("client")
        try:
            made = program(driver, folder, bus.ca_file, **options)
        except ClientsMissingError as missing:
            pytest.fail(str(missing))
        client = ForeignClient(program=made).start()
        started.append(client)
        return client

    yield begin
    for client in started:
        client.stop()
    bus.wait_open_streams(0)


@pytest.fixture
def npm(bus: Emulator, start: Start) -> Start:
    """`salesforce-pubsub-api-client`, connected in one of its ways to log in."""

    def connect(auth: str = "oauth-client-credentials", **over: Any) -> ForeignClient:
        client = start(node_program, "npm_client.mjs")
        client.order("connect", config={**npm_config(bus, auth), **over})
        return client

    return connect


def npm_config(bus: Emulator, auth: str) -> dict[str, Any]:
    """Constructor arguments of the npm client for this login."""
    org = bus.org
    ways: dict[str, dict[str, Any]] = {
        "user-supplied": {
            "accessToken": bus.connection("session")["extra"]["session_token"],
            "instanceUrl": bus.my_domain_url,
        },
        "username-password": {
            "loginUrl": bus.login_url,
            "username": org.username,
            "password": org.password,
            "userToken": org.security_token,
        },
        "oauth-client-credentials": {
            "loginUrl": bus.my_domain_url,
            "clientId": org.consumer_key,
            "clientSecret": org.consumer_secret,
        },
        "oauth-jwt-bearer": {
            "loginUrl": bus.login_url,
            "clientId": org.consumer_key,
            "username": org.username,
            "privateKey": org.private_key_pem,
        },
    }
    return {"authType": auth, "pubSubEndpoint": bus.endpoint, **ways[auth]}


@pytest.fixture(params=["pysf_client.py", "aiosf_client.py"], ids=["pysfpubsub", "aiosfpubsub"])
def either(request: pytest.FixtureRequest, bus: Emulator, start: Start) -> ForeignClient:
    """Each of the clients for Python, logged in."""
    return logged_in(bus, start, request.param)


@pytest.fixture
def pysf(bus: Emulator, start: Start) -> ForeignClient:
    """`pysfpubsub`, logged in."""
    return logged_in(bus, start, "pysf_client.py")


def logged_in(bus: Emulator, start: Start, driver: str) -> ForeignClient:
    client = start(python_program, driver)
    client.order("auth", config=python_config(bus))
    return client


def python_config(bus: Emulator) -> dict[str, Any]:
    """Constructor arguments of both Python clients."""
    host, _, port = bus.endpoint.rpartition(":")
    return {
        "url": bus.login_url,
        "username": bus.org.username,
        "password": f"{bus.org.password}{bus.org.security_token}",
        "grpc_host": host,
        "grpc_port": int(port),
    }
