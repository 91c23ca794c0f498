"""Driver of `aiosfpubsub`: orders on stdin, the client's results on stdout, as JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from aiosfpubsub import Client


def say(**what: Any) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def seen(response: Any, client: Any) -> None:
    """Callback, as in the client's README."""
    if not response.events:
        say(said="keepalive", last=response.latest_replay_id.hex())
    for event in response.events:
        schema = client.get_schema_json(event.event.schema_id)
        payload = client.decode(schema, event.event.payload)
        say(said="event", id=event.event.id, replay_id=event.replay_id.hex(), payload=payload)


class Orders:
    """Orders to the client."""

    client: Any
    streaming: Any = None

    async def auth(self, config: dict[str, Any]) -> dict[str, Any]:
        self.client = Client(**config)
        self.client.auth()
        return {"host": self.client.url, "tenant_id": self.client.tenant_id}

    async def topic(self, topic: str) -> dict[str, Any]:
        found = self.client.get_topic(topic)
        return {"can_publish": found.can_publish, "schema_id": found.schema_id}

    async def subscribe(
        self, topic: str, replay_type: str, count: int, replay_id: str = ""
    ) -> None:
        arguments = (topic, replay_type, bytes.fromhex(replay_id), count, seen)
        self.streaming = asyncio.create_task(self._stream(*arguments))

    async def _stream(self, *arguments: Any) -> None:
        try:
            await self.client.subscribe(*arguments)
        except Exception as error:  # noqa: BLE001 - told to the test, which knows what it waits for
            say(said="error", why=str(error))
        say(said="end")


async def main() -> None:
    orders = Orders()
    while line := await asyncio.to_thread(sys.stdin.readline):
        given = json.loads(line)
        order = given.pop("order")
        try:
            say(said="done", order=order, result=await getattr(orders, order)(**given))
        except Exception as error:  # noqa: BLE001 - told to the test
            say(said="refused", order=order, why=f"{type(error).__name__}: {error}")
    os._exit(0)  # the client has no way to end its stream


if __name__ == "__main__":
    asyncio.run(main())
