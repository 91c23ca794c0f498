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
        self._waiting: set[asyncio.Future[None]] = set()
        self._end: SfEventsError | None = None

    def __len__(self) -> int:
        return len(self._messages)

    async def put(self, message: Message) -> bool:
        """Add a message, when there is room; False: the buffer has ended, and takes no more."""
        most = self._max_pending
        while self._end is None and most is not None and len(self._messages) >= most:
            await self._change()
        if self._end is not None:
            return False
        self._messages.append(message)
        self._wake()
        return True

    async def get(self) -> Message:
        """Take the oldest message; waits for one.

        :raises SfEventsError: the buffer is empty and has ended; the error that ended it.
        """
        while not self._messages:
            if self._end is not None:
                raise self._end
            await self._change()
        message = self._messages.popleft()
        self._wake()
        return message

    def put_back(self, message: Message) -> None:
        """Make a message that was taken the oldest one again; it needs no room."""
        self._messages.appendleft(message)
        self._wake()

    async def end(self, error: SfEventsError) -> None:
        """Take no more messages; `get` raises the error when the buffer is empty.

        Only the first error counts.
        """
        self._end = self._end or error
        self._wake()

    async def _change(self) -> None:
        """Wait until a message has come or gone, or the buffer has ended."""
        change = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await change
        finally:
            self._waiting.discard(change)

    def _wake(self) -> None:
        """Wake all that wait. Each looks at the buffer again, so a call for none is harmless."""
        if not self._waiting:
            return
        for change in self._waiting:
            if not change.done():
                change.set_result(None)
        self._waiting.clear()
