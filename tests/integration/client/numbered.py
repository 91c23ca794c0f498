"""Platform events with a number each, and what a client receives of them."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from tests.integration.pubsub.emulated import come_true

if TYPE_CHECKING:
    from airflow_provider_sfevents.client import Client
    from airflow_provider_sfevents.emulator import Emulator

_names = itertools.count(1)


def topic_of(bus: Emulator) -> str:
    return bus.define_event(f"Order{next(_names)}__e", {"Number__c": "Double"})


def publish(bus: Emulator, topic: str, *numbers: float) -> list[bytes]:
    return bus.publish(topic, [{"Number__c": float(one)} for one in numbers])


def number(message: dict[str, Any]) -> Any:
    return message["data"]["payload"]["Number__c"]


async def numbers(client: Client, count: int) -> list[Any]:
    async with asyncio.timeout(60):
        return [number(await client.receive()) for _ in range(count)]


def is_subscribed(bus: Emulator, topic: str) -> bool:
    return any(one.open and one.begun and one.topic == topic for one in bus.subscriptions)


async def subscribed(client: Client, bus: Emulator, topic: str) -> None:
    """Subscribe, and wait until the service has noted it: new events are those from then on."""
    await client.subscribe(topic)
    await come_true(lambda: is_subscribed(bus, topic))
