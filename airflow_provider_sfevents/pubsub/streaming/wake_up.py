"""Waiting for a word from another task of the loop, for so long at most; and for the word of whoever wants an end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class WakeUp:
    """Wakes the one who waits. Rung while nobody does, it does nothing: look at what may have changed, then wait, with no await between."""

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[bool] | None = None

    def wake(self) -> None:
        """Lets a `wait` return."""
        self._end(rang=True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Returns when it rings, or after so long; whether it rang."""
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
        self._end(rang=False)

    def _end(self, *, rang: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(rang)


class Interrupt:
    """A future that tells whoever listens to return at once.

    :param future: None: nobody will.
    :param ring: called when it is done.
    :raises RuntimeError: for a future of another loop: it could never wake anybody here.
    """

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Any] | None, ring: Callable[[], None]) -> None:
        self.future = future
        if future is not None:
            if future.get_loop() is not asyncio.get_running_loop():
                raise RuntimeError("The interrupt of a subscription belongs to another event loop.")
            future.add_done_callback(lambda _: ring())

    def is_set(self) -> bool:
        """:raises Exception: what the future failed with; nobody would be told otherwise."""
        if self.future is None or not self.future.done():
            return False
        if not self.future.cancelled():
            self.future.result()
        return True
