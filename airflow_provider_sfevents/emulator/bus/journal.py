"""The journal of a bus: a sequence of files that survives a restart; the oldest files expire.

1. The first file is `bus.log`; when it is large or old enough, `bus.000001.log` follows, etc.
2. Each later file begins with everything that does not expire (topics, schemas, the org's records).
   Therefore earlier files can be removed once their events and replay ids are past retention.
3. A file is written under another name and then renamed, and only the last file is appended to.
   After a kill, only unacknowledged or expired entries can be missing.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.bus import journal_records
from airflow_provider_sfevents.emulator.errors import EmulatorError, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from io import FileIO
    from pathlib import Path

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic

FILE_BYTES = 64 * 1024 * 1024
_HOUR, _MINUTE = 3600.0, 60.0
_FILES_IN_RETENTION = 8  # how finely what has expired can go
_DIGITS = 6


@dataclass(slots=True, kw_only=True)
class LogFile:
    """One file of a journal.

    :param head: size in bytes of its first records, which repeat everything that does not expire.
    :param oldest: publish time of its first event or position, in seconds since the epoch; None if
        it has none.
    :param newest: likewise of the newest.
    """

    path: Path
    size: int = 0
    head: int = 0
    oldest: float | None = None
    newest: float | None = None

    def holds(self, at: float) -> None:
        """Record the publish time of an entry."""
        self.oldest = at if self.oldest is None else min(self.oldest, at)
        self.newest = at if self.newest is None else max(self.newest, at)

    def is_before(self, moment: float) -> bool:
        """True if every entry that expires is older."""
        return self.newest is None or self.newest < moment


class BusLog:
    """The open journal of one bus. The bus holds the lock.

    Each write reaches the operating system before the publisher gets its result.

    :param files: existing files, oldest first.
    :param file_bytes: size at which a new file is started.
    """

    def __init__(self, bus: Bus, files: list[LogFile], *, file_bytes: int = FILE_BYTES) -> None:
        self._bus = bus
        self._files = files
        self._file_bytes = file_bytes
        self._span = max(_MINUTE, bus.knobs.retention_hours * _HOUR / _FILES_IN_RETENTION)
        self._file: FileIO = files[-1].path.open("ab", buffering=0)

    def topic(self, topic: BusTopic) -> None:
        self._write([journal_records.topic_body(topic)])

    def schema(self, schema_id: str, schema_json: str) -> None:
        self._write([journal_records.schema_body(schema_id, schema_json)])

    def events(
        self, events: Sequence[StoredEvent], note: bytes = b"", topics: Sequence[BusTopic] = ()
    ) -> None:
        times = [event.published_at for event in events]
        if note:
            self._write([journal_records.noted_body(note, events, topics)], times)
        else:
            self._write(map(journal_records.event_body, events), times)

    def position(self, position: int, at: float) -> None:
        self._write([journal_records.position_body(position, at)], [at])

    def renumbered(self, position: int, events: Sequence[StoredEvent], *, old_valid: bool) -> None:
        body = journal_records.moved_body(position, events, old_valid=old_valid)
        self._write([body], [event.published_at for event in events])

    def sweep(self, now: float, since: float) -> None:
        """Remove files whose entries are all older than `since`."""
        if self._file.closed:
            return  # reading a stopped bus does not change its folder
        last = self._files[-1]
        if self._is_old(last, now) or (last.newest is not None and last.is_before(since)):
            with suppress(UnwritableError):  # on a full disk events can still be read
                self._begin_file()
        while len(self._files) > 1 and self._files[0].is_before(since):
            self._files[0].path.unlink(missing_ok=True)
            del self._files[0]

    def close(self) -> None:
        self._file.close()

    def _write(self, bodies: Iterable[bytes], times: Sequence[float] = ()) -> None:
        """Append records.

        :raises UnwritableError: the write failed; nothing was written.
        """
        if self._file.closed:
            raise UnwritableError("the emulator has stopped; its folder is not written any more")
        last = self._files[-1]
        # A long head must not be rewritten for every few events.
        is_long = last.size - last.head >= max(self._file_bytes, last.head)
        if is_long or (times and self._is_old(last, times[0])):
            last = self._begin_file()
        content = memoryview(journal_records.framed(bodies))
        written = 0
        try:
            while written < len(content):
                written += self._file.write(content[written:]) or 0
        except OSError as error:
            os.truncate(last.path, last.size)  # half a record would hide the records after it
            raise UnwritableError(
                f"cannot write to {last.path}: {error.strerror}; these events are not "
                "published, those before them are; make room there, or begin a new folder"
            ) from error
        last.size += written
        for at in (times[0], times[-1]) if times else ():
            last.holds(at)

    def _is_old(self, file: LogFile, now: float) -> bool:
        return file.oldest is not None and now - file.oldest >= self._span

    def _begin_file(self) -> LogFile:
        head = journal_records.head(self._bus)
        made = LogFile(path=_next(self._files[-1].path), size=len(head), head=len(head))
        new = made.path.with_suffix(".new")
        try:
            new.write_bytes(head)
            opened = new.open("ab", buffering=0)
            new.replace(made.path)  # last: a named file receives all further records
        except OSError as error:
            raise UnwritableError(
                f"cannot write to {made.path}: {error.strerror}; make room there, or begin a new "
                "folder"
            ) from error
        self._file.close()
        self._file = opened
        self._files.append(made)
        return made


def open_log(bus: Bus, first: Path, *, file_bytes: int = FILE_BYTES) -> BusLog:
    """Restore a bus from its journal, truncate half a record at the end, and continue the journal.

    :param first: path of the first file; the following files are in the same folder.
    :raises EmulatorError: a file is damaged, or the folder cannot be written.
    """
    try:
        first.parent.mkdir(parents=True, exist_ok=True)
        for left in first.parent.glob(f"{first.stem}.*.new"):
            left.unlink()  # left by an emulator that was killed while it started a file
        paths = sorted(first.parent.glob(f"{first.stem}.{'[0-9]' * _DIGITS}{first.suffix}"))
        if first.exists() or not paths:
            first.touch()
            paths.insert(0, first)
        with bus.lock:
            files = [_read(bus, path, is_last=path == paths[-1]) for path in paths]
            log = bus.journal = BusLog(bus, files, file_bytes=file_bytes)
    except OSError as error:
        raise EmulatorError(f"{error.filename} cannot be used: {error.strerror}") from error
    return log


def _next(path: Path) -> Path:
    """Path of the next file: `bus.000001.log` after `bus.log`."""
    name, _, number = path.stem.partition(".")
    return path.with_name(f"{name}.{int(number or 0) + 1:0{_DIGITS}}{path.suffix}")


def _read(bus: Bus, path: Path, *, is_last: bool) -> LogFile:
    """Restore a bus from one file.

    :raises EmulatorError: the file is damaged: a kill leaves half a record, at the end of the last
        file only.
    """
    found = LogFile(path=path)
    length, is_cut = path.stat().st_size, False
    if length:
        # Mapped, so that a day of events is not held in memory twice.
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            _restore(bus, content, found)
            is_cut = journal_records.is_cut(content, found.size)
    if found.size == length:
        return found
    if not is_last or not is_cut:
        remedy = (
            "restore it, or end it there and lose the events behind"
            if is_last
            else "remove it and the files before it to keep the later events"
        )
        raise EmulatorError(f"{path} is damaged at byte {found.size} of {length}; {remedy}")
    os.truncate(path, found.size)
    return found


def _restore(bus: Bus, content: mmap.mmap, found: LogFile) -> None:
    since, oldest, newest = bus.kept_since(), 0.0, 0.0
    for body, end in journal_records.whole_bodies(content):
        at = journal_records.restore(bus, body, since)
        if at > newest:
            newest = at
            oldest = oldest or at
        elif not at and (behind := journal_records.head_size(body)):
            found.head = end + behind
        found.size = end
    if newest:
        found.oldest, found.newest = oldest, newest
