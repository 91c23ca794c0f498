"""A Streaming API with hardly any cost in its own process, so that a benchmark measures the client.

Its answers are serialised once, beforehand. A poll of a client with a subscription is answered at
once with the next events. No cookies, no retention, no end of the channel.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Message = dict[str, Any]

CHANNEL = "/event/Bench__e"
FULL = 100
"""Events in an answer, as in those of the emulator."""
ANSWERS = 64
"""Different ones; then they come round again."""
TOKEN_PATH = "/services/oauth2/token"  # noqa: S105 - no secret

_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


def _event(number: int) -> Message:
    payload = {
        "CreatedDate": "2026-01-05T10:00:00.000Z",
        "CreatedById": "005000000000001AAA",
        **{f"Field_{field}__c": f"{number} a text" for field in range(8)},
        "Amount__c": number / 8,
        "Is_Open__c": True,
    }
    event = {"EventUuid": f"00000000-0000-0000-0000-{number:012}", "replayId": number}
    return {
        "data": {"schema": "dffQ2QLzDNHqwB8_sHMxdA", "payload": payload, "event": event},
        "channel": CHANNEL,
    }


class Server:
    """The few answers that a client needs.

    :ivar url: of the login and of the API.
    """

    def __init__(self) -> None:
        self.url = ""
        self._full = cycle(
            [
                b",".join(json.dumps(_event(number)).encode() for number in range(at, at + FULL))
                for at in range(1, ANSWERS * FULL, FULL)
            ]
        )
        self._is_subscribed = self._has_connected = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                body = await reader.readexactly(length)
                answer = self._login() if TOKEN_PATH in head else self._answer(json.loads(body))
                writer.write(_HEAD.format(len(answer)).encode() + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _login(self) -> bytes:
        self._is_subscribed = self._has_connected = False
        found = {"access_token": "00D000000000001!bench", "token_type": "Bearer"}
        return json.dumps({**found, "instance_url": self.url}).encode()

    def _answer(self, messages: list[Message]) -> bytes:
        return b"[" + b",".join(map(self._one, messages)) + b"]"

    def _one(self, message: Message) -> bytes:
        channel = message["channel"]
        said = {"channel": channel, "id": message["id"], "clientId": "bench", "successful": True}
        match channel:
            case "/meta/handshake":
                self._is_subscribed = self._has_connected = False
                more = {"version": "1.0", "supportedConnectionTypes": ["long-polling"]}
                return json.dumps({**said, **more, "ext": {"replay": True}}).encode()
            case "/meta/subscribe":
                self._is_subscribed = True
                return json.dumps({**said, "subscription": message["subscription"]}).encode()
            case "/meta/connect" if not self._has_connected:
                self._has_connected = True
                advice = {"interval": 0, "timeout": 110_000, "reconnect": "retry"}
                return json.dumps({**said, "advice": advice}).encode()
            case "/meta/connect" if self._is_subscribed:
                return next(self._full) + b"," + json.dumps(said).encode()
        return json.dumps(said).encode()


async def _main() -> None:
    bus = Server()
    server = await asyncio.start_server(bus.serve, "127.0.0.1", 0)
    bus.url = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    print(bus.url, flush=True)
    await server.serve_forever()


@contextmanager
def running() -> Iterator[str]:
    """Run a server in another process, and yield its URL."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            yield process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_main())
