"""The folder of an emulator: what must be there again after a restart.

    lock                    held by the emulator that runs with this folder
    orgs.json               who the orgs are, and the ports their addresses name
    <org id>/bus.log        what happened on the bus, one record after another
    <org id>/managed.json   managed subscriptions and what is committed, see `managed.registry`

A record of the log is its length, its CRC-32 and its body; the body is a letter for its kind and what belongs to it.
A process killed while writing leaves half a record at the end: it was never acknowledged, and is cut off.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import struct
import sys
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

from airflow_provider_sfevents.emulator.bus import Bus, Topic
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.replay_log import StoredEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import FileIO
    from pathlib import Path

_ORGS = "orgs.json"
_LOCK = "lock"
_VERSION = 1
_FRAME = struct.Struct(">II")  # length of the body, its CRC-32
_PLACE = struct.Struct(">qdH")  # position, seconds since the epoch, length of the topic's name
_LENGTH = struct.Struct(">I")
_TOPIC, _SCHEMA, _EVENT, _POSITION, _NUMBERING = b"T", b"S", b"E", b"P", b"N"
_COPY, _NOTED = b"V", b"C"  # a channel's own copy of an event; a note with the events it belongs to


class BusLog:
    """Appends to the log of one bus. Each write reaches the operating system before the publisher hears of it.

    Every method that writes raises `EmulatorError` when the disk does not take it; then nothing of it is in the log.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        # Unbuffered: a buffer would try again later what was refused.
        self._file: FileIO = path.open("ab", buffering=0)
        self._size = self._file.tell()

    def topic(self, topic: Topic) -> None:
        self._write(_TOPIC + json.dumps(asdict(topic)).encode())

    def schema(self, schema_id: str, schema_json: str) -> None:
        self._write(_SCHEMA + json.dumps([schema_id, schema_json]).encode())

    def events(self, events: Sequence[StoredEvent], note: bytes = b"") -> None:
        bodies = [_event_body(event) for event in events]
        if note:
            # One record: after a kill the note is there with all its events, or neither is.
            parts = (_LENGTH.pack(len(part)) + part for part in (note, *bodies))
            self._write(_NOTED + b"".join(parts))
        else:
            self._write(*bodies)

    def position(self, position: int, at: float) -> None:
        self._write(_POSITION + _PLACE.pack(position, at, 0))

    def renumbered(self, position: int, *, old_valid: bool) -> None:
        self._write(_NUMBERING + json.dumps([position, old_valid]).encode())

    def close(self) -> None:
        self._file.close()

    def _write(self, *bodies: bytes) -> None:
        frames = b"".join(_FRAME.pack(len(body), zlib.crc32(body)) + body for body in bodies)
        left = memoryview(frames)
        try:
            while left:  # a disk that is nearly full takes a part
                left = left[self._file.write(left) :]
        except OSError as error:
            self._file.truncate(self._size)
            raise EmulatorError(
                f"cannot write to {self._path}: {error.strerror}; make room there, or begin a new folder"
            ) from error
        self._size += len(frames)


def read_into(bus: Bus, path: Path) -> None:
    """Bring a bus back to where its log ends; cut off half a record there."""
    if not path.exists() or not path.stat().st_size:
        return
    whole = 0
    with path.open("r+b") as file:
        # Mapped: a day of events need not fit into memory a second time.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content, bus.lock:
            for body, end in _bodies(content):
                _restore(bus, body)
                whole = end
            size = len(content)
        if whole < size:
            file.truncate(whole)


def lock(folder: Path) -> BinaryIO:
    """Keep other emulators off a folder, until what is returned is closed or this process ends.

    :raises EmulatorError: when another one has it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    except OSError as error:
        raise EmulatorError(
            f"cannot write to folder {folder}: {error.strerror}; make it writable, or name another folder"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise EmulatorError(
            f"folder {folder} is in use by another emulator; stop that one, or name another folder"
        ) from error
    return file


def read_orgs(folder: Path) -> dict[str, Any]:
    """Read what was written about orgs and ports; empty for a new folder.

    :raises EmulatorError: when the file is not one of ours.
    """
    path = folder / _ORGS
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text())
        known = value["version"] == _VERSION
    except (ValueError, KeyError, TypeError) as error:
        raise EmulatorError(
            f"{path} is not an emulator's: {error}; name another folder, or remove it"
        ) from error
    if not known:
        raise EmulatorError(
            f"{path} has version {value['version']!r}; this release reads {_VERSION}"
        )
    return dict(value)


def write_orgs(folder: Path, value: dict[str, Any]) -> None:
    """Replace what is written about orgs and ports, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{_ORGS}.new"
    new.touch(mode=0o600)  # it holds the secrets of orgs that do not exist; all the same
    new.write_text(json.dumps({"version": _VERSION, **value}, indent=1))
    new.replace(folder / _ORGS)


def _event_body(event: StoredEvent) -> bytes:
    kind = _COPY if event.channel else _EVENT
    names = (f"{event.channel}\0{event.topic}" if event.channel else event.topic).encode()
    return kind + _PLACE.pack(event.position, event.published_at, len(names)) + names + event.wire


def _parts(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        start = at + _LENGTH.size
        [length] = _LENGTH.unpack_from(content, at)
        at = start + length
        yield content[start:at]


def _bodies(content: bytes | mmap.mmap) -> Iterator[tuple[bytes, int]]:
    """Every whole record's body, and where the record ends."""
    at = 0
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        start, at = at + _FRAME.size, at + _FRAME.size + length
        body = content[start:at]
        if len(body) < length or not body or zlib.crc32(body) != checksum:
            return
        yield body, at


def _restore(bus: Bus, body: bytes) -> None:
    match body[:1]:
        case b"E" | b"V":
            position, at, length = _PLACE.unpack_from(body, 1)
            name_at = 1 + _PLACE.size
            channel, _, topic = body[name_at : name_at + length].decode().rpartition("\0")
            wire = body[name_at + length :]
            # One name for all events of a topic, not one each.
            bus.restore_event(StoredEvent(position, at, sys.intern(topic), wire, channel))
        case b"C":
            note, *events = _parts(body[1:])
            bus.restore_note(note)
            for event in events:
                _restore(bus, event)
        case b"P":
            position, at, _ = _PLACE.unpack_from(body, 1)
            bus.restore_position(position, at)
        case b"S":
            bus.restore_schema(*json.loads(body[1:]))
        case b"N":
            position, old_valid = json.loads(body[1:])
            bus.restore_numbering(position, old_valid=old_valid)
        case _:
            value = json.loads(body[1:])
            bus.restore_topic(Topic(**{**value, "members": tuple(value["members"])}))
