"""How many HTTP/2 connections a client has, and which of them an RPC goes on.

A connection takes so many RPCs at once; one more waits, without a word, until another ends, and a subscription need not end for days. So
streams are counted, and the next connection is opened before one is full.

Rule 1. Streams go on the fullest connection that has room, so that others run empty; calls on the emptiest.
Rule 2. Ten places on each connection are never given to streams. So a call finds room wherever it is made.
Rule 3. An empty connection is closed when the others have room to spare for streams; the last one stays.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.proto.pubsub_api_pb2_grpc import PubSubStub

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import grpc.aio

# What servers commonly take on one connection; Salesforce's page says 1,000, and what stands in front of its servers is not ours to know.
MOST_RPCS = 100
MOST_STREAMS = 90
# With less room for streams than this in the others, an empty connection is soon wanted again.
_SPARE_STREAMS = 45


@dataclass(slots=True, kw_only=True)
class Load:
    """What one connection carries now."""

    streams: int = 0
    calls: int = 0

    @property
    def is_full(self) -> bool:
        return self.streams + self.calls >= MOST_RPCS

    @property
    def room_for_streams(self) -> int:
        return max(0, MOST_STREAMS - self.streams)


def for_stream(loads: Sequence[Load]) -> int | None:
    """Which connection the next stream goes on; None: on another one."""
    free = [at for at, load in enumerate(loads) if load.room_for_streams and not load.is_full]
    return max(free, key=lambda at: loads[at].streams, default=None)


def for_call(loads: Sequence[Load]) -> int | None:
    """Which connection the next call goes on; None: on another one."""
    free = [at for at, load in enumerate(loads) if not load.is_full]
    return min(free, key=lambda at: loads[at].streams + loads[at].calls, default=None)


def superfluous(loads: Sequence[Load]) -> int | None:
    """Which connection may be closed, should there be one."""
    room = sum(load.room_for_streams for load in loads)
    for at, load in enumerate(loads):
        is_empty = not load.streams and not load.calls
        if is_empty and room - load.room_for_streams >= _SPARE_STREAMS:
            return at
    return None


class ChannelPool:
    """Opens the first channel with the first RPC, in the loop that makes it.

    :param open_channel: makes one; it connects with its first RPC.
    """

    def __init__(self, open_channel: Callable[[], grpc.aio.Channel]) -> None:
        self._open_channel = open_channel
        self._channels: list[tuple[grpc.aio.Channel, Any]] = []
        self._loads: list[Load] = []
        self._closing: set[asyncio.Task[None]] = set()

    def stream(self, method: str, **options: Any) -> Any:
        """A call that counts as a stream until it is done."""
        stub, load = self._taken(for_stream(self._loads))
        load.streams += 1
        try:
            call = getattr(stub, method)(**options)
        except BaseException:
            load.streams -= 1
            raise

        def ended(_: Any) -> None:
            load.streams -= 1
            self._tidy()

        call.add_done_callback(ended)
        return call

    async def unary(self, method: str, request: Any, **options: Any) -> Any:
        """The answer. :raises grpc.aio.AioRpcError: as the call fails."""
        stub, load = self._taken(for_call(self._loads))
        load.calls += 1
        try:
            return await getattr(stub, method)(request, **options)
        finally:
            load.calls -= 1
            self._tidy()

    async def close(self) -> None:
        """Closes every channel, and with them whatever RPC is left."""
        channels, self._channels, self._loads = self._channels, [], []
        for channel, _ in channels:
            await channel.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def _taken(self, at: int | None) -> tuple[Any, Load]:
        if at is None:
            at = len(self._channels)
            channel = self._open_channel()
            self._channels.append((channel, PubSubStub(channel)))  # type: ignore[no-untyped-call]
            self._loads.append(Load())
        return self._channels[at][1], self._loads[at]

    def _tidy(self) -> None:
        while (at := superfluous(self._loads)) is not None:
            del self._loads[at]
            channel, _ = self._channels.pop(at)
            closing = asyncio.ensure_future(channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
