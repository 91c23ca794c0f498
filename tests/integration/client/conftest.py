"""Clients of either transport, and emulators with topics for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.client import Client
from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.client.numbered import topic_of
from tests.integration.pubsub.emulated import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Connect = Callable[..., Client]


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulator]:
    """One emulator for the tests that do not stop it; each test has topics of its own."""
    with Emulator(knobs=Knobs(cometd_time_scale=0.1)) as bus:
        yield bus
        bus.check()


@pytest.fixture
def bus(shared: Emulator) -> Emulator:
    return shared


@pytest.fixture
def own() -> Iterator[Emulator]:
    """An emulator that the test may stop."""
    with Emulator(knobs=Knobs(cometd_time_scale=0.1)) as bus:
        yield bus
        bus.check()


@pytest.fixture(params=["pubsub", "streaming"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(bus: Emulator, transport: str) -> Connect:
    """Makes a client of either transport; its arguments are those of `Client`."""

    def made(**options: Any) -> Client:
        return Client(settings_of(bus), transport=transport, **options)

    return made


@pytest.fixture
def topic(bus: Emulator) -> str:
    return topic_of(bus)
