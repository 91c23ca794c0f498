"""A minimal call that delivers events, for any RPC: generated messages, without package code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grpc import aio

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


class EventCall:
    """A call that delivers events."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def read(self) -> Any:
        return await asyncio.wait_for(self.call.read(), 100)

    async def take(self, count: int) -> list[Any]:
        """Read until `count` events have come."""
        events: list[Any] = []
        while len(events) < count:
            response = await self.read()
            assert response is not aio.EOF, await self.call.code()
            events += response.events
        return events

    async def end(self) -> str:
        """Half-close, read to the end and return the status."""
        await self.call.done_writing()
        while await self.read() is not aio.EOF:
            pass
        return str((await self.call.code()).name)


def published(bus: Emulator, count: int, size: int = 0) -> tuple[str, list[bytes]]:
    """Publish so many numbered events, at least of this size; return their topic and replay ids."""
    topic = bus.define_event("Order__e", {"Number__c": "Text"})
    return topic, bus.publish(topic, [{"Number__c": f"{n}{'x' * size}"} for n in range(count)])
