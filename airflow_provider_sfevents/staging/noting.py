"""Accepted events on their way into the ledger: in another thread, while the event loop goes on to publish.

1. One file is written at a time: when there are `LINES`, or `SECONDS` after its first event was noted.
2. While one is written the next fills up; when that is full too, whoever notes waits. So no more than two files' events are noted and not
   written: with those under way, they are all that a killed task sends again.
3. What could not be written stays noted. Whoever notes next is told the trouble, and at the end all of it is tried once more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from airflow_provider_sfevents.staging.published import Accepted

    Write = Callable[[Sequence[Accepted]], None]

LINES = 2_000
SECONDS = 5.0
"""A file is written after so many events or so long, so that little is published again after a crash, and few files are written."""


class Noting:
    """For one task, with `async with`; what is noted is written when that is left, however it is.

    :param write: adds a file to the ledger; called in another thread.
    """

    def __init__(self, write: Write, *, lines: int = LINES, seconds: float = SECONDS) -> None:
        self._write_file = write
        self._lines = lines
        self._seconds = seconds
        self._noted: list[Accepted] = []
        self._leaving: list[Accepted] = []  # what is written now, or next
        self._due = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """:raises StagingError: some of it cannot be written."""
        while self._writing is not None and not self._writing.done():
            self._due.set()
            await asyncio.wait({self._writing})
        if self._writing is not None:
            with suppress(Exception, asyncio.CancelledError):  # what it was to write is left
                self._writing.result()
        if left := self._leaving + self._noted:
            await asyncio.to_thread(self._write_file, left)

    async def note(self, accepted: Iterable[Accepted]) -> None:
        """Takes events in; waits for nothing but a store that is slower than the bus.

        :raises StagingError: what was noted before cannot be written.
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
        """One file, when it is due; then the next, should there be anything for it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._due.wait(), self._seconds)
        if not self._leaving:
            self._leave()
        self._due.clear()
        await asyncio.to_thread(self._write_file, self._leaving)
        self._leaving = []
        self._writing = self._next()
