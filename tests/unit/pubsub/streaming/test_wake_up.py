"""Wake-up between tasks of one loop."""

from __future__ import annotations

import asyncio

from airflow_provider_sfevents.pubsub.streaming.wake_up import WakeUp


def test_it_tells_whether_it_rang() -> None:
    """`wait` returns True if woken and False after its timeout."""

    async def play() -> tuple[bool, bool]:
        wake_up = WakeUp()
        timed_out = await wake_up.wait(0.0)
        asyncio.get_running_loop().call_soon(wake_up.wake)
        return timed_out, await wake_up.wait(60.0)

    assert asyncio.run(play()) == (False, True)


def test_it_does_not_ring_later() -> None:
    """A wake-up without a waiter, or a second one, has no effect on the next wait."""

    async def play() -> bool:
        wake_up = WakeUp()
        wake_up.wake()
        waiting = asyncio.ensure_future(wake_up.wait(60.0))
        await asyncio.sleep(0)
        wake_up.wake()
        wake_up.wake()
        await waiting
        return await wake_up.wait(0.0)

    assert asyncio.run(play()) is False


def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    """A cancelled wait leaves no timer and no waiter."""

    async def play() -> None:
        wake_up = WakeUp()
        waiting = asyncio.ensure_future(wake_up.wait(60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        wake_up.wake()
        assert await wake_up.wait(0.0) is False

    asyncio.run(play())
