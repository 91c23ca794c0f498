"""Driver of `aiosfstream-ng`: orders on stdin, the client's results on stdout, as JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from typing import Any

from aiosfstream_ng import Client, PasswordAuthenticator, ReplayMarker, ReplayOption


def say(**what: Any) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


class Login(PasswordAuthenticator):  # type: ignore[misc]  # not typed
    """The client's own login at another host, which its class has as a property."""

    def __init__(self, login_url: str, **credentials: str) -> None:
        super().__init__(**credentials)
        self._login_url = login_url

    @property
    def _token_url(self) -> str:
        return f"{self._login_url}/services/oauth2/token"


class Orders:
    """Orders to the client."""

    client: Any

    def __init__(self) -> None:
        self.markers: dict[str, Any] = {}
        self._receiving: asyncio.Task[None] | None = None

    async def open(self, config: dict[str, str], replay_ids: dict[str, int]) -> None:
        """Log in, shake hands and connect, with the replay ids of an earlier run."""
        kept = {topic: ReplayMarker(date="", replay_id=one) for topic, one in replay_ids.items()}
        self.markers.update(kept)
        self.client = Client(
            Login(**config),
            replay=self.markers,
            replay_fallback=ReplayOption.ALL_EVENTS,
            connection_timeout=0,  # its way to wait for one is not that of Python 3.10 and later
        )
        await self.client.open()

    async def subscribe(self, topic: str) -> None:
        await self.client.subscribe(topic)
        self._receiving = self._receiving or asyncio.create_task(self._receive())

    async def measure(self, topic: str, count: int) -> dict[str, float]:
        """Receive so many events; returns the seconds between the first and the last."""
        await self.client.subscribe(topic)
        messages = aiter(self.client)
        await anext(messages)
        began, used = time.perf_counter(), time.process_time()
        for _ in range(count - 1):
            await anext(messages)
        return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}

    async def replay_ids(self) -> dict[str, int]:
        return {topic: marker.replay_id for topic, marker in self.markers.items()}

    async def is_receiving(self) -> bool:
        return self._receiving is not None and not self._receiving.done()

    async def close(self) -> None:
        await self.client.close()

    async def _receive(self) -> None:
        try:
            async for message in self.client:
                event = message["data"]["event"]
                payload = message["data"]["payload"]
                say(said="event", replay_id=event["replayId"], payload=payload)
        except Exception as error:  # noqa: BLE001 - told to the test, which knows what it waits for
            say(said="error", why=repr(error))


async def main() -> None:
    orders = Orders()
    while line := await asyncio.to_thread(sys.stdin.readline):
        given = json.loads(line)
        order = given.pop("order")
        try:
            say(said="done", order=order, result=await getattr(orders, order)(**given))
        except Exception as error:  # noqa: BLE001 - told to the test
            say(said="refused", order=order, why=f"{type(error).__name__}: {error}")
    with suppress(Exception):
        await orders.close()


if __name__ == "__main__":
    asyncio.run(main())
