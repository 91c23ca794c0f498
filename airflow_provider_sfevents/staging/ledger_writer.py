"""Write accepted events to the ledger in a thread, while the event loop continues to publish.

1. One file is written at a time: after `LINES` events, or `SECONDS` after its first event was
   noted.
2. While a file is written the next one fills up. When that one is full too, `note` waits. So at
   most two files' events are noted and not yet written. With the events that are being sent, they
   are all that a retry sends again after a kill.
3. Events that could not be written stay noted. The next `note` raises the error, and leaving the
   context writes all of them once more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from airflow_provider_sfevents.staging.publish_ledger import Accepted

    Write = Callable[[Sequence[Accepted]], None]

LINES = 2_000
SECONDS = 5.0
"""Bounds of a file: few events are published again after a crash, and few files are written."""


class LedgerWriter:
    """Ledger writer of one task, for `async with`; leaving it writes all noted events.

    :param write: adds a file to the ledger; called in another thread.
    """

    def __init__(self, write: Write, *, lines: int = LINES, seconds: float = SECONDS) -> None:
        self._write_file = write
        self._lines = lines
        self._seconds = seconds
        self._noted: list[Accepted] = []
        self._leaving: list[Accepted] = []  # being written now, or next
        self._due = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Write the remaining events.

        :raises StagingError: some events cannot be written.
        """
        while self._writing is not None and not self._writing.done():
            self._due.set()
            await asyncio.wait({self._writing})
        if self._writing is not None:
            with suppress(Exception, asyncio.CancelledError):  # its events are written below
                self._writing.result()
        if left := self._leaving + self._noted:
            await asyncio.to_thread(self._write_file, left)

    async def note(self, accepted: Iterable[Accepted]) -> None:
        """Add accepted events; waits only if the store is slower than the bus.

        :raises StagingError: events that were noted before cannot be written.
        """
        self._noted += accepted
        is_full = len(self._noted) >= self._lines
        if is_full and self._leaving and self._writing is not None:
            await asyncio.wait({self._writing})
        if self._writing is not None and self._writing.done():
            failed, self._writing = self._writing, None
            self._noted, self._leaving = self._leaving + self._noted, []
            failed.result()
        self._writing = self._writing or self._next()
        if is_full:
            self._leave()

    def _leave(self) -> None:
        self._leaving, self._noted = self._noted, []
        self._due.set()

    def _next(self) -> asyncio.Task[None] | None:
        return asyncio.create_task(self._write()) if self._noted else None

    async def _write(self) -> None:
        """Write one file when it is due, then start the next one if events are waiting for it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._due.wait(), self._seconds)
        if not self._leaving:
            self._leave()
        self._due.clear()
        await asyncio.to_thread(self._write_file, self._leaving)
        self._leaving = []
        self._writing = self._next()
