"""Deliveries in, closed Parquet files out: durable as soon as possible, at a few hundred nanoseconds per event, in flat memory.

The event loop only appends to lists and counts. Encoding, checksum, compression and disk happen in one thread of the writer's own;
`append` waits when that thread is two chunks behind, and so does the stream that calls it.

A file is closed when it is large enough, and also when its first event is old enough, be the stream as quiet as it may: what a
killed task had received is paid for, and only closed files are worth keeping.
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
from airflow_provider_sfevents.staging.part_file import Chunk, PartFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from upath import UPath

log = logging.getLogger(__name__)

PART_EVENTS = 20_000
"""Events after which a file is closed: one second or a few of a busy topic, a fraction of a default Spark task."""

PART_BYTES = 32 * 2**20
"""Payload bytes after which a file is closed."""

PART_SECONDS = 30.0
"""Age of its first event at which a file is closed: what a killed task may have to pay for twice."""

CHUNK_EVENTS = 5_000
"""Events in a row group."""

CHUNK_BYTES = 8 * 2**20
"""Payload bytes in a row group; with events of 1 MB this is what keeps memory flat."""

CHUNKS_IN_FLIGHT = 2
"""Chunks that may wait for the thread: one being encoded, one ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a file and when a row group is closed; a delivery is never torn apart, so each is passed by less than one delivery."""

    part_events: int = PART_EVENTS
    part_bytes: int = PART_BYTES
    part_seconds: float = PART_SECONDS
    chunk_events: int = CHUNK_EVENTS
    chunk_bytes: int = CHUNK_BYTES


@dataclass(slots=True, kw_only=True)
class _Current:
    """The file being filled: what the loop knows of it, and, touched by the thread only, the file."""

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
    """Writes the files of one attempt. An async context manager that closes, whatever happened: what was received is kept.

    Belongs to one event loop.

    :param folder: the batch's folder.
    :param claim: number of the claim whose attempt this is.
    :param start: what the first event lies after: `earliest` or a replay id in hex.
    :param first_ordinal: the first event's ordinal in the batch.
    :param received: called with the number of events of each delivery, before anything else is done with it.
    """

    def __init__(
        self,
        folder: UPath,
        *,
        claim: int,
        start: str,
        first_ordinal: int,
        limits: Limits | None = None,
        received: Callable[[int], None] | None = None,
    ) -> None:
        self._batch = folder
        self._attempt = layout.attempt_folder(claim)
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

    async def append(
        self,
        ids: Sequence[str],
        replay_ids: Sequence[bytes],
        schema_ids: Sequence[str],
        payloads: Sequence[bytes],
        received_at: int,
    ) -> None:
        """Take a delivery over; returns when there is room for the next.

        :param received_at: microseconds since the epoch.
        :raises StagingError: what came before could not be written; nothing more will be.
        """
        if self._closed:
            raise RuntimeError("append after close")
        if not ids:
            return
        if self._note_received is not None:
            self._note_received(len(ids))
        part = self._current = self._current or self._begin()
        part.size += part.chunk.add(ids, replay_ids, schema_ids, payloads, received_at)
        part.events += len(ids)
        part.end = replay_ids[-1]
        part.schemas.update(schema_ids)
        self._ordinal += len(ids)
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
        """Close the last file; all files of this attempt, in order. A second call changes nothing.

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
                log.warning("Not all of what was received could be kept: %s", failure)

    def _begin(self) -> _Current:
        timer = asyncio.get_running_loop().call_later(self._limits.part_seconds, self._seal)
        return _Current(
            start=self._start,
            first_ordinal=self._ordinal,
            chunk=Chunk(ordinal=self._ordinal),
            timer=timer,
        )

    def _seal(self) -> None:
        """Close the file being filled: it is full, or old enough, or it is the end."""
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
            # `wait` and not the future itself: if we are cancelled here the chunk must not be.
            await asyncio.wait([self._jobs[0]])
            self._jobs.popleft()

    # From here on in the thread.

    def _run(self, part: _Current, job: Callable[[], None]) -> None:
        """After one chunk was not written none may be: a file with a hole would look complete."""
        if self._failed:
            return
        try:
            job()
        except Exception as error:  # noqa: BLE001 - it is raised where it can be heard, by `append` or `close`
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
