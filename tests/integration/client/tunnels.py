"""An HTTP proxy that opens tunnels on loopback."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Tunnels:
    """Tunnels that were asked for.

    :ivar port: of the proxy.
    :ivar heads: heads of the requests.
    :ivar open: tasks of the tunnels.
    """

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        host, _, port = head.split()[1].rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def tunnels() -> AsyncIterator[Tunnels]:
    """A proxy for the length of a block."""
    made = Tunnels()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in made.open:
            task.cancel()
        await asyncio.gather(*made.open, return_exceptions=True)
