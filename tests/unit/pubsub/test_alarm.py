"""Waiting for a word of another task."""

from __future__ import annotations

import asyncio

from airflow_provider_sfevents.pubsub.alarm import Alarm


def test_it_tells_whether_it_rang() -> None:
    """Rung is not the same as waited for in vain."""

    async def play() -> tuple[bool, bool]:
        alarm = Alarm()
        in_vain = await alarm.wait(0.0)
        asyncio.get_running_loop().call_soon(alarm.ring)
        return in_vain, await alarm.wait(60.0)

    assert asyncio.run(play()) == (False, True)


def test_it_does_not_ring_later() -> None:
    """Rung while nobody waits, or twice, it is forgotten: the next one who waits looks first."""

    async def play() -> bool:
        alarm = Alarm()
        alarm.ring()
        waiting = asyncio.ensure_future(alarm.wait(60.0))
        await asyncio.sleep(0)
        alarm.ring()
        alarm.ring()
        await waiting
        return await alarm.wait(0.0)

    assert asyncio.run(play()) is False


def test_who_is_cancelled_leaves_nothing_behind() -> None:
    """Neither a timer nor a waiter: the next ring finds nobody."""

    async def play() -> None:
        alarm = Alarm()
        waiting = asyncio.ensure_future(alarm.wait(60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        alarm.ring()
        assert await alarm.wait(0.0) is False

    asyncio.run(play())
