"""One client connection through the relay: two byte pumps, and the ways to cut it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents.emulator.faults import http2_frames

if TYPE_CHECKING:
    from collections.abc import Collection

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CHUNK = 64 * 1024
_TICKS_A_SECOND = 20
_CLOSE_SECONDS = 1.0
_PARTING_SECONDS = 5.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class RelayConditions(Protocol):
    """Conditions of the relay that a connection follows."""

    moving: asyncio.Event
    rst_error: str
    half_open_seconds: float

    def pace(self, rpcs: Collection[str]) -> int: ...


class RelayedConnection:
    """A client connection and its counterpart to the server.

    :param near: streams to the client.
    :param far: streams to the server.
    """

    def __init__(self, network: RelayConditions, near: Streams, far: Streams) -> None:
        self.rpcs: set[str] = set()
        self._network = network
        self._from_client, self._to_client = near
        self._from_server, self._to_server = far
        self.port = str(self._to_server.get_extra_info("sockname")[1])
        self._streams = http2_frames.OpenStreams()
        self._foreign = False
        self._within = False
        self._parting = False
        self._receiving = asyncio.Event()
        self._receiving.set()
        self._begun = asyncio.Event()
        self._inserted: list[bytes] = []
        for writer in (self._to_client, self._to_server):
            writer.transport.set_write_buffer_limits(1)  # so that drain() waits for the last byte

    @property
    def open_streams(self) -> int:
        return len(self._streams.ids)

    async def run(self) -> None:
        """Pass bytes until one side closes, then close the other."""
        ways = [asyncio.create_task(self._up()), asyncio.create_task(self._down())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if self._parting:
                # An immediate close while the client writes causes a reset, which may
                # overtake the GOAWAY.
                await asyncio.wait(ways[:1], timeout=_PARTING_SECONDS)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await asyncio.gather(_close(self._to_client), _close(self._to_server))

    def cut(self, how: str, streams: set[int] | None = None) -> None:
        """Cut the connection.

        :param how: `reset`: by a TCP reset. `goaway`: GOAWAY, then the end of the connection.
            `rst_stream`: RST_STREAM for these streams, or for all open ones, and the connection
            stays. `half_open`: nothing passes any more, not even the client's close, until the
            server gives up.
        """
        if self._is_ended():
            return
        if how == "half_open":
            self._receiving.clear()
            loop = asyncio.get_running_loop()
            loop.call_later(self._network.half_open_seconds, self.give_up)
            return
        if how == "rst_stream":
            for stream in sorted(self._streams.ids if streams is None else streams):
                self._insert(http2_frames.rst_stream(stream, self._network.rst_error))
                self._to_server.write(http2_frames.rst_stream(stream, "CANCEL"))
                self._streams.ids.discard(stream)
            return
        if how == "goaway":
            self._insert(http2_frames.goaway(self._streams.newest))
            self._parting = self._to_client.can_write_eof()
            if self._parting:
                self._to_client.write_eof()
            else:
                self._to_client.close()
        else:
            raw = self._to_client.get_extra_info("socket")
            with contextlib.suppress(OSError):  # already closing
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._to_client.transport.abort()
        self._to_server.transport.abort()

    @property
    def half_open(self) -> bool:
        return not self._receiving.is_set()

    def give_up(self) -> None:
        """End a half-open connection."""
        if self.half_open:
            self.cut("reset")
            self._receiving.set()

    # --- bytes ------------------------------------------------------------------------------------

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Receive bytes; a frozen network delays them, and also the end of the connection."""
        try:
            received = await reader.read(_CHUNK)
        except OSError:
            received = b""
        await self._network.moving.wait()
        await self._receiving.wait()
        return received

    async def _up(self) -> None:
        buffer = http2_frames.FrameBuffer(http2_frames.PREFACE)
        with contextlib.suppress(OSError):
            while received := await self._read(self._from_client):
                whole = buffer.feed(received)
                self._foreign = buffer.foreign
                if self._foreign and not self._begun.is_set() and http2_frames.is_http1(received):
                    self._to_client.write(http2_frames.UNSUPPORTED)
                    return
                self._begun.set()
                if not self._foreign:
                    for frame in whole:
                        self._streams.from_client(frame)
                if not self._parting:
                    self._to_server.write(b"".join(whole))
                    await self._to_server.drain()

    async def _down(self) -> None:
        buffer = http2_frames.FrameBuffer()
        # The server sends first, which must not answer an HTTP/1.1 client.
        await self._begun.wait()
        with contextlib.suppress(OSError):
            while received := await self._read(self._from_server):
                await self._send(buffer.feed(received))

    async def _send(self, whole: list[bytes]) -> None:
        """Pass frames to the client and carry out the orders among them."""
        passing: list[bytes] = []
        for frame in whole:
            self._streams.from_server(frame)
            rest, how, stream = http2_frames.take_order(frame)
            if rest:
                passing.append(rest)
            if how:
                await self._write(passing)
                passing = []
                self.cut(how, {stream})
                if how != "rst_stream":
                    return
        await self._write(passing)

    async def _write(self, passing: list[bytes]) -> None:
        if not passing or self._is_ended():
            return
        self._within = True
        if self._network.pace(self.rpcs):
            for frame in passing:
                await self._crawl(frame)
        else:
            self._to_client.write(b"".join(passing))
        self._within = http2_frames.splits_headers(passing[-1])
        if not self._within:
            waiting, self._inserted = self._inserted, []
            for frame in waiting:
                self._insert(frame)
        await self._to_client.drain()

    async def _crawl(self, frame: bytes) -> None:
        """Write a frame at the current rate."""
        at = 0
        while at < len(frame) and not self._to_client.is_closing():
            pace = self._network.pace(self.rpcs)
            # Below one byte per tick, the ticks become longer.
            size = max(1, pace // _TICKS_A_SECOND) if pace else len(frame)
            self._to_client.write(frame[at : at + size])
            await self._to_client.drain()
            at += size
            if pace:
                await asyncio.sleep(size / pace)
            await self._network.moving.wait()

    def _insert(self, frame: bytes) -> None:
        """Insert a frame to the client, at the next permitted point."""
        if self._within:
            self._inserted.append(frame)
        elif not (self._foreign or self._is_ended()):
            self._to_client.write(frame)

    def _is_ended(self) -> bool:
        """True if nothing more can be sent to the client."""
        return self._parting or self._to_client.is_closing()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; abort it if the client does not read the last bytes."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
