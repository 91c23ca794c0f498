"""Steps of clients while the network breaks and returns."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator

TOPIC = "/event/Order__e"


def publish(bus: Emulator, count: int, size: int = 0) -> list[bytes]:
    return bus.publish(TOPIC, [{"Number__c": f"{n}{'x' * size}"} for n in range(count)])


async def cut_off(client: Any) -> tuple[list[bytes], Any]:
    """Read a stream until it breaks; return its replay ids and its end."""
    stream = await client.subscribe(TOPIC)
    taken: list[bytes] = []

    async def read_on() -> None:
        while True:
            taken.extend(event.replay_id for event in (await stream.read()).events)

    return taken, await client.refused(read_on())


def knock(bus: Emulator) -> socket.socket:
    host, port = bus.endpoint.split(":")
    return socket.create_connection((host, int(port)), timeout=5)


async def to_the_end(stream: Any) -> None:
    while await stream.read() is not aio.EOF:
        pass


async def turned_away(client: Any) -> None:
    """Call GetTopic until the port is closed; earlier calls may end with the broken connection."""
    async with asyncio.timeout(100):
        while True:
            refused = await client.refused(client.get_topic(TOPIC))
            assert refused.status == "UNAVAILABLE"
            if "Connection refused" in refused.message:
                return


async def served(client: Any) -> Any:
    """Call GetTopic until the server is reached again, which a client notices a moment later."""
    async with asyncio.timeout(100):
        while True:
            try:
                return await client.get_topic(TOPIC)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            await asyncio.sleep(0.02)  # gRPC says nothing when it has connected again
