"""Lock by key within an event loop; no lock outlives its users.

Sessions and schemas are fetched once and kept for the whole process, and the process may run one
event loop after another (`asyncio.run` per task). So a lock exists only while it is held or waited
for.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable


@dataclass(slots=True)
class _SharedLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class KeyedLock:
    """One lock per key. If its holder fails or is cancelled, the next waiter tries by itself."""

    def __init__(self) -> None:
        self._locks: dict[tuple[int, Hashable], _SharedLock] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        entry = (id(asyncio.get_running_loop()), key)
        lock = self._locks.setdefault(entry, _SharedLock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[entry]
