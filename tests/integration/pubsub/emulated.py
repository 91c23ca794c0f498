"""Fixtures for tests of the client against the emulator: a running pair, events, a receiver."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import Emulator, EmulatorClock as BusClock, Knobs
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from tests.harness.process_time import process_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

TOPIC = "/event/Order__e"
QUICK: dict[str, Any] = {"max_seconds": 20.0, "idle_seconds": 0.2}
LONG: dict[str, Any] = {"max_seconds": 120.0, "idle_seconds": 120.0}


@asynccontextmanager
async def running(
    bus_clock: BusClock | None = None,
    *,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
    chance: float = 0.0,
    folder: Path | None = None,
    share_streams: bool = False,
    **knobs: Any,
) -> AsyncIterator[tuple[Emulator, PubSubClient]]:
    """An emulator with one topic, and a client that logs in to it by client credentials.

    :param chance: fraction of each backoff that is waited; 0 keeps tests quick.
    """
    values = Knobs(**{"half_close_seconds": 0.02, **knobs})
    with Emulator(knobs=values, clock=bus_clock, folder=folder) as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        async with client_of(bus, timeouts, chance, share_streams=share_streams) as client:
            yield bus, client
        bus.check()


def client_of(
    bus: Emulator, timeouts: Timeouts, chance: float, *, share_streams: bool = False
) -> PubSubClient:
    return PubSubClient(
        settings_of(bus),
        sessions=SessionCache(),
        schemas=SchemaCache(),
        clock=Clock(monotonic=process_time, chance=lambda: chance),
        timeouts=timeouts,
        share_streams=share_streams,
    )


def settings_of(bus: Emulator) -> Settings:
    login = ClientCredentials(
        login_url=bus.my_domain_url,
        client_id=bus.org.consumer_key,
        client_secret=Secret(bus.org.consumer_secret),
    )
    return Settings(login=login, endpoint=bus.endpoint, plaintext=True)


def publish(bus: Emulator, count: int, first: int = 0) -> list[bytes]:
    return bus.publish(
        TOPIC, [{"Number__c": float(number)} for number in range(first, first + count)]
    )


async def come_true(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition in the emulator's thread."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.005)


class Received:
    """Events that a batch handed over."""

    def __init__(self) -> None:
        self.replay_ids: list[bytes] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.replay_ids += delivery.replay_ids

    async def wait_for(self, events: int) -> None:
        await come_true(lambda: len(self.replay_ids) >= events)
