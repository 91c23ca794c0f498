"""Buffer of received messages: bounded, and readable after the connection was lost."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError

Message = dict[str, Any]


class MessageBuffer:
    """Messages in the order of their arrival. To be used within one event loop.

    :param max_pending: most messages; `put` waits while there are so many. None: no limit.
    :raises ConfigurationError: the limit is no positive number.
    """

    def __init__(self, max_pending: int | None) -> None:
        if max_pending is not None and max_pending < 1:
            raise ConfigurationError(
                f"max_pending_count is {max_pending!r}. Give a number from 1, or None for no limit."
            )
        self._max_pending = max_pending
        self._messages: deque[Message] = deque()
        self._changed = asyncio.Condition()
        self._end: SfEventsError | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    async def put(self, message: Message) -> bool:
        """Add a message, when there is room; False: the buffer has ended, and takes no more."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.has_ended or self._has_room())
            if self.has_ended:
                return False
            self._messages.append(message)
            self._changed.notify_all()
            return True

    async def get(self) -> Message:
        """Take the oldest message; waits for one.

        :raises SfEventsError: the buffer is empty and has ended; the error that ended it.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._messages or self.has_ended)
            if not self._messages and self._end is not None:
                raise self._end
            message = self._messages.popleft()
            self._changed.notify_all()
            return message

    async def end(self, error: SfEventsError) -> None:
        """Take no more messages; `get` raises the error when the buffer is empty.

        Only the first error counts.
        """
        async with self._changed:
            self._end = self._end or error
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._max_pending is None or len(self._messages) < self._max_pending
