"""Relay between clients and the gRPC server; it passes bytes and imitates network faults.

The relay, not the gRPC server, terminates TLS. Therefore it sees frames with and without TLS, and
the frames that it inserts are valid on the wire.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.faults.relayed_connection import RelayedConnection, Streams

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection

_LAST_WORDS_SECONDS = 1.0
_TLS_CLOSE_SECONDS = 0.05  # gRPC clients do not answer a TLS close; they wait for the TCP close


class Relay:
    """Accepts clients and connects each to the server. Used in the event loop only.

    :param port: bound socket that does not listen yet.
    :param again: binds the port again after it was closed.
    :param target: port of the server on this machine.
    :param rst_error: name of the HTTP/2 error in an RST_STREAM.
    :param half_open_seconds: time for which the server keeps a half-open connection.
    """

    def __init__(
        self,
        *,
        port: socket.socket,
        again: Callable[[], socket.socket],
        target: int,
        tls: ssl.SSLContext | None,
        rst_error: str,
        half_open_seconds: float,
    ) -> None:
        self.rst_error = rst_error
        self.half_open_seconds = half_open_seconds
        self.moving = asyncio.Event()
        self.moving.set()
        self.paces: dict[str, int] = {}
        self._listener = port
        self._again = again
        self._target = target
        self._tls = tls
        self._listening = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._joining: set[asyncio.Task[None]] = set()
        self._open: set[RelayedConnection] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # --- network faults ---------------------------------------------------------------------------

    def conditions(self) -> list[str]:
        """Current network conditions."""
        found = [] if self._listening else ["away"]
        found += [] if self.moving.is_set() else ["freeze"]
        found += ["half_open"] if any(one.half_open for one in self._open) else []
        found += [" ".join(filter(None, ("trickle", rpc, str(n)))) for rpc, n in self.paces.items()]
        return found

    def streams(self) -> list[int]:
        """Number of open streams per connection."""
        return [one.open_streams for one in self._open]

    @property
    def connections(self) -> int:
        """Number of open client connections."""
        return len(self._open)

    def listen(self) -> None:
        """Start or resume accepting connections."""
        self._cancel("away")
        if not self._listening:
            self._listener.listen(socket.SOMAXCONN)
            self._listener.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listener, self._accept)
            self._listening = True

    def leave(self, how: str, seconds: float | None) -> None:
        """Cut every connection and refuse new ones for `seconds`; the port stays bound."""
        self._stop_listening()
        self._listener = self._again()
        self.cut(how)
        self._later("away", seconds, self.listen)

    def cut(self, how: str) -> None:
        """Cut every connection, also those in their handshake; see `RelayedConnection.cut`."""
        for one in tuple(self._open):
            one.cut(how)
        for task in tuple(self._joining) if how in {"reset", "goaway"} else ():
            task.cancel()

    def freeze(self, seconds: float | None) -> None:
        """Pass nothing for `seconds`; sockets stay open and new ones are accepted."""
        self.moving.clear()
        self._later("freeze", seconds, self.thaw)

    def thaw(self) -> None:
        self._cancel("freeze")
        self.moving.set()

    def trickle(self, rpc: str, bytes_per_second: int | None) -> None:
        """Slow down responses on connections that carry this RPC; on all if it is empty."""
        self.paces.pop(rpc, None)
        if bytes_per_second:
            self.paces[rpc] = bytes_per_second

    def mend(self) -> None:
        """End all network faults."""
        self.paces.clear()
        self.thaw()
        self._give_up()
        self.listen()

    # --- calls by connections and the server ------------------------------------------------------

    def carries(self, peer: str, rpc: str) -> None:
        """Record that the server has a call of this RPC from this peer, in gRPC's notation."""
        port = peer.rpartition(":")[2]
        for one in self._open:
            if one.port == port:
                one.rpcs.add(rpc)

    def pace(self, rpcs: Collection[str]) -> int:
        """Bytes per second of a connection that carries these RPCs; 0 for no limit."""
        return min((pace for rpc, pace in self.paces.items() if not rpc or rpc in rpcs), default=0)

    async def stop(self) -> None:
        """Send the server's last bytes, then close everything."""
        self._stop_listening()
        self.paces.clear()
        self.thaw()
        self._give_up()
        self._cancel("away")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS_SECONDS)
        self.cut("reset")
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- inside -----------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """End half-open connections."""
        for one in tuple(self._open):
            one.give_up()

    def _later(self, name: str, seconds: float | None, end: Callable[[], None]) -> None:
        """End a condition after `seconds`; it lasts if None."""
        self._cancel(name)
        if seconds is not None:
            self._timers[name] = asyncio.get_running_loop().call_later(seconds, end)

    def _cancel(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def _stop_listening(self) -> None:
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listening = False
        self._listener.close()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        client.setblocking(False)
        task = asyncio.create_task(self._serve(client))
        self._tasks.add(task)
        self._joining.add(task)  # added now, because it may be cut before its first step
        task.add_done_callback(lambda done: self._served(done, client))

    def _served(self, task: asyncio.Task[None], client: socket.socket) -> None:
        self._tasks.discard(task)
        self._joining.discard(task)
        if task.cancelled():
            client.close()  # a task that was cancelled before its first step has not closed it
        else:
            task.exception()  # retrieved: a client that fails in its handshake is no defect

    async def _serve(self, client: socket.socket) -> None:
        """Connect a client to the server until one of them closes."""
        one = await self._joined(client)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker; a coroutine runs in a task
        self._joining.discard(task)
        self._open.add(one)
        try:
            await one.run()
        finally:
            self._open.discard(one)

    async def _joined(self, client: socket.socket) -> RelayedConnection:
        """Connect a client with the server.

        :raises OSError: the client gave up, or the server has stopped.
        """
        try:
            await self.moving.wait()  # a frozen network passes no TLS handshake either
            near = await _streams(client, self._tls)
        except BaseException:
            client.close()
            raise
        try:
            return RelayedConnection(
                self, near, await asyncio.open_connection("127.0.0.1", self._target)
            )
        except BaseException:
            near[1].transport.abort()
            raise


async def _streams(accepted: socket.socket, tls: ssl.SSLContext | None) -> Streams:
    """Reader and writer of an accepted socket, after the TLS handshake if any."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol,
        accepted,
        ssl=tls,
        ssl_shutdown_timeout=_TLS_CLOSE_SECONDS if tls else None,
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
