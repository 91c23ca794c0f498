"""Sessions of one org at once: at most so many in a process, and the waits beyond take turns.

Salesforce counts concurrent CometD clients by edition, 20 in a Developer edition (Streaming API
Developer Guide, "Streaming API Limits"). A triggerer may have more waits than that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.settings import Settings

TURN_SECONDS = 5.0
"""Time for which a wait keeps its session without an event while others wait for one.

What is pending comes with the first answers."""


class SessionSlots:
    """Slots for sessions; for one event loop. The one that has waited longest is next."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_contended(self) -> bool:
        """True if a wait has no session for the lack of a slot."""
        return bool(self._waiting)

    async def take(self) -> None:
        """Take a slot; wait until there is one."""
        if self._free and not self._waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif turn.done() and not turn.cancelled():
                self.give()
            raise

    def give(self) -> None:
        """Give a slot back, to the one that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


_SLOTS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Settings, SessionSlots]] = (
    WeakKeyDictionary()
)


def slots_of(settings: Settings) -> SessionSlots:
    """Return the slots of the running loop for a connection's settings."""
    of_loop = _SLOTS.setdefault(asyncio.get_running_loop(), {})
    return of_loop.setdefault(settings, SessionSlots(settings.streaming_sessions))
