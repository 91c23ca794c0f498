"""Wake-up between tasks of one event loop, with a timeout; and the interrupt of a subscription."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class WakeUp:
    """Wake the single waiter.

    A call without a waiter has no effect: check the condition, then wait, with no await in between.
    """

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[bool] | None = None

    def wake(self) -> None:
        """Let a `wait` return."""
        self._end(woken=True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Return when woken, or after so long; True if woken."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self._time_is_up)
        try:
            return await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiter = None

    def _time_is_up(self) -> None:
        self._end(woken=False)

    def _end(self, *, woken: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(woken)


class Interrupt:
    """A future that makes the listening call return at once.

    :param future: None: there is no interrupt.
    :param wake: called when the future is done.
    :raises RuntimeError: for a future of another loop, which could never wake a task of this one.
    """

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Any] | None, wake: Callable[[], None]) -> None:
        self.future = future
        if future is not None:
            if future.get_loop() is not asyncio.get_running_loop():
                raise RuntimeError("The interrupt of a subscription belongs to another event loop.")
            future.add_done_callback(lambda _: wake())

    def is_set(self) -> bool:
        """True if the future is done.

        :raises Exception: the future's own, which would be lost otherwise.
        """
        if self.future is None or not self.future.done():
            return False
        if not self.future.cancelled():
            self.future.result()
        return True
