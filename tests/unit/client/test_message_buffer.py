"""The buffer of received messages."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_sfevents.client.message_buffer import MessageBuffer
from airflow_provider_sfevents.exceptions import (
    ClientClosedError,
    ConfigurationError,
    TransportTimeoutError,
)

pytestmark = pytest.mark.anyio


async def turns(count: int = 10) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_prefetch_is_bounded() -> None:
    """A message that finds the buffer full waits until one is taken."""
    buffer = MessageBuffer(2)
    for number in range(2):
        assert await buffer.put({"n": number})
    third = asyncio.ensure_future(buffer.put({"n": 2}))
    await turns()
    assert (len(buffer), third.done()) == (2, False)
    assert await buffer.get() == {"n": 0}
    assert await third
    assert len(buffer) == 2


async def test_prefetch_without_a_limit() -> None:
    """`None` is no limit."""
    buffer = MessageBuffer(None)
    for number in range(1000):
        assert await buffer.put({"n": number})
    assert len(buffer) == 1000


async def test_messages_are_readable_after_the_end() -> None:
    """The first error that ended the buffer is raised after its messages, each time."""
    buffer = MessageBuffer(2)
    await buffer.put({"n": 0})
    await buffer.end(TransportTimeoutError("lost"))
    await buffer.end(ClientClosedError("closed"))
    assert await buffer.get() == {"n": 0}
    for _ in range(2):
        with pytest.raises(TransportTimeoutError, match="lost"):
            await buffer.get()


async def test_the_end_wakes_both_sides() -> None:
    """A reader and a writer that wait learn of the end."""
    empty, full = MessageBuffer(1), MessageBuffer(1)
    await full.put({})
    reader, writer = asyncio.ensure_future(empty.get()), asyncio.ensure_future(full.put({}))
    await turns()
    for buffer in (empty, full):
        await buffer.end(ClientClosedError("closed"))
    assert await writer is False
    with pytest.raises(ClientClosedError):
        await reader


async def test_a_cancelled_reader_takes_nothing() -> None:
    """A message stays for the next reader when a waiting reader is cancelled."""
    buffer = MessageBuffer(1)
    reader = asyncio.ensure_future(buffer.get())
    await turns()
    reader.cancel()
    await turns()
    await buffer.put({"n": 1})
    assert await buffer.get() == {"n": 1}


async def test_a_limit_below_one_is_refused() -> None:
    """A buffer without room would never deliver."""
    with pytest.raises(ConfigurationError, match="max_pending_count"):
        MessageBuffer(0)
