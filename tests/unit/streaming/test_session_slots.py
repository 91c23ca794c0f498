"""Slots for sessions: at most so many at once, in the order of asking."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_sfevents.streaming.session_slots import SessionSlots

pytestmark = pytest.mark.anyio


async def _tick() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_the_one_that_waited_longest_is_next() -> None:
    """A slot goes to the waits in the order in which they asked."""
    slots, order = SessionSlots(1), list[str]()

    async def wait(name: str) -> None:
        await slots.take()
        order.append(name)

    await wait("first")
    others = [asyncio.create_task(wait(name)) for name in ("second", "third")]
    await _tick()
    assert (order, slots.is_contended) == (["first"], True)
    slots.give()
    await _tick()
    assert order == ["first", "second"]
    slots.give()
    await asyncio.gather(*others)
    assert (order[-1], slots.is_contended) == ("third", False)


async def test_a_wait_that_is_cancelled_takes_no_slot() -> None:
    """A cancelled wait leaves its place; a slot that it had just got goes to the next."""
    slots = SessionSlots(1)
    await slots.take()
    early, late, last = (asyncio.create_task(slots.take()) for _ in range(3))
    await _tick()
    early.cancel()
    await _tick()
    slots.give()
    late.cancel()
    await _tick()
    await asyncio.wait_for(last, 1)
    slots.give()
    await asyncio.wait_for(slots.take(), 1)
