"""Write deliveries to closed Parquet files: durable early, at a few hundred nanoseconds per event.

1. The event loop only appends to lists and counts. Encoding, checksum, compression and disk happen
   in one thread of the writer's own, so memory stays flat.
2. `append` waits if that thread is two chunks behind, and so does the stream that calls it.
3. A file is closed when it is large enough. It is also closed when its first event is old enough,
   even if no event follows: only closed files survive a killed task, and the org has paid for every
   event that it received.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Part
from airflow_provider_sfevents.staging.parts.part_file import Chunk, PartFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from upath import UPath

    from airflow_provider_sfevents.staging.parts.part_file import Received

log = logging.getLogger(__name__)

PART_EVENTS = 20_000
"""Events after which a file is closed: a few seconds of a busy topic, part of a Spark task."""

PART_BYTES = 32 * 2**20
"""Payload bytes after which a file is closed."""

PART_SECONDS = 30.0
"""Age of its first event at which a file is closed: bounds what a kill makes the org pay twice."""

CHUNK_EVENTS = 5_000
"""Events in a row group."""

CHUNK_BYTES = 8 * 2**20
"""Payload bytes in a row group; with events of 1 MB this bound keeps memory flat."""

CHUNKS_IN_FLIGHT = 2
"""Chunks that may wait for the thread: one in encoding, one ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a file and of a row group, in events, payload bytes and seconds.

    A delivery is never split, so each bound is exceeded by less than one delivery.
    """

    part_events: int = PART_EVENTS
    part_bytes: int = PART_BYTES
    part_seconds: float = PART_SECONDS
    chunk_events: int = CHUNK_EVENTS
    chunk_bytes: int = CHUNK_BYTES


@dataclass(slots=True, kw_only=True)
class _Current:
    """The file that is being filled; the thread alone uses `file`, the event loop the rest."""

    start: str
    first_ordinal: int
    chunk: Chunk
    timer: asyncio.TimerHandle
    events: int = 0
    size: int = 0
    end: bytes = b""
    schemas: set[str] = field(default_factory=set)
    file: PartFile | None = None


class PartWriter:
    """Writer of one attempt's files, for `async with`: leaving it closes the last file.

    Leaving it on an error keeps the received events, too. Belongs to one event loop.

    :param folder: the batch's folder.
    :param lease: number of the lease whose attempt this is.
    :param start: replay point that the first event follows: `earliest` or a replay id in hex.
    :param first_ordinal: the first event's ordinal in the batch.
    :param limits: bounds of files and row groups.
    :param received: called first of all with the number of events of each delivery.
    """

    def __init__(
        self,
        folder: UPath,
        *,
        lease: int,
        start: str,
        first_ordinal: int,
        limits: Limits | None = None,
        received: Callable[[int], None] | None = None,
    ) -> None:
        self._batch = folder
        self._attempt = layout.attempt_folder(lease)
        self._limits = limits or Limits()
        self._note_received = received
        self._start = start
        self._ordinal = first_ordinal
        self._current: _Current | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sfevents-staging")
        self._jobs: deque[asyncio.Future[None]] = deque()
        self._parts: list[Part] = []
        self._failed: Exception | None = None
        self._closed = False

    async def append(self, delivery: Received) -> None:
        """Take a delivery; returns when there is room for the next.

        :raises StagingError: an earlier delivery could not be written; no later one will be.
        :raises RuntimeError: the writer is closed.
        """
        if self._closed:
            raise RuntimeError("append after close")
        if not (count := len(delivery.ids)):
            return
        if self._note_received is not None:
            self._note_received(count)
        part = self._current = self._current or self._begin()
        part.size += part.chunk.add(delivery)
        part.events += count
        part.end = delivery.replay_ids[-1]
        part.schemas.update(delivery.schema_ids)
        self._ordinal += count
        limits = self._limits
        if part.events >= limits.part_events or part.size >= limits.part_bytes:
            self._seal()
        elif len(part.chunk.ids) >= limits.chunk_events or part.chunk.size >= limits.chunk_bytes:
            self._hand_over(part)
        await self._catch_up(CHUNKS_IN_FLIGHT)
        if self._failed:
            raise self._failed

    async def sealed(self) -> str:
        """Close the current file; return the replay id, hex, of the last event in a closed one.

        :raises StagingError: a file could not be written.
        """
        self._seal()
        await self._catch_up(0)
        if self._failed:
            raise self._failed
        return self._parts[-1].end if self._parts else ""

    async def close(self) -> list[Part]:
        """Close the last file and return all files of this attempt, in order.

        A second call changes nothing.

        :raises StagingError: a file could not be written; those closed before stay.
        """
        self._seal()
        self._closed = True
        await self._catch_up(0)
        self._thread.shutdown()
        if self._failed:
            raise self._failed
        return list(self._parts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except StagingError as failure:
            if error is None:
                raise
            if failure is not error:
                log.warning("Some received events could not be staged: %s", failure)

    def _begin(self) -> _Current:
        timer = asyncio.get_running_loop().call_later(self._limits.part_seconds, self._seal)
        return _Current(
            start=self._start,
            first_ordinal=self._ordinal,
            chunk=Chunk(ordinal=self._ordinal),
            timer=timer,
        )

    def _seal(self) -> None:
        """Close the current file: it is full, or old enough, or the last one."""
        part, self._current = self._current, None
        if part is None:
            return
        part.timer.cancel()
        self._start = part.end.hex()
        if part.chunk.ids:
            self._hand_over(part)
        said = Part(
            path=f"{self._attempt}/{layout.part_name(part.first_ordinal)}",
            start=part.start,
            end=part.end.hex(),
            first_ordinal=part.first_ordinal,
            events=part.events,
            bytes=part.size,
            sha256="",
            schemas=tuple(sorted(part.schemas)),
        )
        self._submit(part, lambda: self._finish(part, said))

    def _hand_over(self, part: _Current) -> None:
        chunk, part.chunk = part.chunk, Chunk(ordinal=self._ordinal)
        self._submit(part, lambda: self._encode(part, chunk))

    def _submit(self, part: _Current, job: Callable[[], None]) -> None:
        self._jobs.append(asyncio.wrap_future(self._thread.submit(self._run, part, job)))

    async def _catch_up(self, behind: int) -> None:
        while len(self._jobs) > behind:
            # `wait`, not the future itself: if this task is cancelled, the chunk must not be.
            await asyncio.wait([self._jobs[0]])
            self._jobs.popleft()

    # The methods below run in the thread.

    def _run(self, part: _Current, job: Callable[[], None]) -> None:
        """Run a job, unless an earlier one failed: a file with a hole would look complete."""
        if self._failed:
            return
        try:
            job()
        except Exception as error:  # noqa: BLE001 - raised by the next `append` or `close`
            self._failed = error
            if part.file:
                part.file.discard()

    def _encode(self, part: _Current, chunk: Chunk) -> None:
        part.file = part.file or PartFile(self._batch / self._attempt, part.first_ordinal)
        part.file.write(chunk)

    def _finish(self, part: _Current, said: Part) -> None:
        if part.file:
            self._parts.append(part.file.close(said))
            steps.reached(steps.PART_CLOSED, said.path)
