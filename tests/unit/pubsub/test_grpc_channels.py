"""Choice of a connection for an RPC, and opening and closing of connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.pubsub.grpc_channels import (
    MOST_RPCS,
    MOST_STREAMS,
    ChannelLoad,
    GrpcChannelPool,
    for_call,
    for_stream,
    superfluous,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def loads(*pairs: tuple[int, int]) -> list[ChannelLoad]:
    return [ChannelLoad(streams=streams, calls=calls) for streams, calls in pairs]


@pytest.mark.parametrize(
    ("there", "stream", "call"),
    [
        pytest.param([], None, None, id="none open"),
        pytest.param([(0, 0)], 0, 0, id="one empty"),
        pytest.param([(89, 0)], 0, 0, id="one place left for streams"),
        pytest.param([(90, 0)], None, 0, id="the last ten are for calls"),
        pytest.param([(90, 10)], None, None, id="not one place left"),
        pytest.param([(50, 50)], None, None, id="full of calls"),
        pytest.param([(10, 0), (60, 5), (90, 0)], 1, 0, id="streams together, calls apart"),
    ],
)
def test_where_an_rpc_goes(
    there: list[tuple[int, int]], stream: int | None, call: int | None
) -> None:
    """A stream uses the fullest connection with room, and a call the emptiest one."""
    assert (for_stream(loads(*there)), for_call(loads(*there))) == (stream, call)


@pytest.mark.parametrize(
    ("there", "closed"),
    [
        pytest.param([(0, 0)], None, id="the last one stays"),
        pytest.param([(0, 0), (0, 0)], 0, id="one of two empty ones"),
        pytest.param([(90, 0), (0, 0)], None, id="soon wanted again"),
        pytest.param([(46, 0), (0, 0)], None, id="little room elsewhere"),
        pytest.param([(45, 0), (0, 0)], 1, id="room to spare"),
        pytest.param([(45, 0), (0, 1)], None, id="a call is on it"),
    ],
)
def test_when_an_empty_connection_is_closed(
    there: list[tuple[int, int]], closed: int | None
) -> None:
    """An empty connection is closed only if the others have room to spare."""
    assert superfluous(loads(*there)) == closed


class MadeUpCall:
    """A stream that ends when the test says so."""

    def __init__(self, channel: MadeUpChannel) -> None:
        self._channel = channel
        self._callbacks: list[Callable[[Any], None]] = []
        channel.rpcs += 1

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        self._channel.rpcs -= 1
        for callback in self._callbacks:
            callback(self)


class MadeUpChannel:
    """A channel that counts its RPCs."""

    def __init__(self) -> None:
        self.rpcs = 0
        self.closed = False
        self.answer = asyncio.Event()

    def unary_unary(self, *_: Any, **__: Any) -> Callable[..., Any]:
        async def call(*_: Any, **__: Any) -> str:
            self.rpcs += 1
            await self.answer.wait()
            self.rpcs -= 1
            return "answer"

        return call

    def stream_stream(self, *_: Any, **__: Any) -> Callable[..., Any]:
        return lambda **_: MadeUpCall(self)

    async def close(self) -> None:
        assert self.rpcs == 0
        self.closed = True


@settings(deadline=None, max_examples=30)  # a busy machine is no defect
@given(steps=st.lists(st.integers(-150, 150), min_size=1, max_size=12))
def test_no_connection_is_ever_too_full(steps: list[int]) -> None:
    """A connection never has more than 90 streams, and few streams keep few connections."""

    async def play() -> None:
        opened: list[MadeUpChannel] = []

        def open_channel() -> Any:
            opened.append(MadeUpChannel())
            return opened[-1]

        pool = GrpcChannelPool(open_channel)
        calls: list[MadeUpCall] = []
        for step in steps:
            calls += [pool.stream("Subscribe") for _ in range(step)]
            for _ in range(min(-step, len(calls))):
                calls.pop(len(calls) // 2).end()
            await asyncio.sleep(0)
            there = [channel for channel in opened if not channel.closed]
            assert all(channel.rpcs <= MOST_STREAMS for channel in there)
            empty = [channel for channel in there if not channel.rpcs]
            assert len(empty) <= 1
        for call in calls:
            call.end()
        await pool.close()
        assert all(channel.closed for channel in opened)

    asyncio.run(play())


def test_a_call_finds_room_beside_any_number_of_streams() -> None:
    """Ten calls fit beside full streams; more calls open another connection instead of waiting."""

    async def play() -> None:
        opened: list[MadeUpChannel] = []

        def open_channel() -> Any:
            opened.append(MadeUpChannel())
            return opened[-1]

        pool = GrpcChannelPool(open_channel)
        streams = [pool.stream("Subscribe") for _ in range(MOST_STREAMS)]
        calls = [asyncio.ensure_future(pool.unary("GetTopic", "request")) for _ in range(25)]
        await asyncio.sleep(0)
        assert [channel.rpcs for channel in opened] == [MOST_RPCS, 15]
        for channel in opened:
            channel.answer.set()
        assert await asyncio.gather(*calls) == ["answer"] * 25
        for stream in streams:
            stream.end()
        await asyncio.sleep(0)
        assert [channel.closed for channel in opened] == [False, True]
        await pool.close()

    asyncio.run(play())
