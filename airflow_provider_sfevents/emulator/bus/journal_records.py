"""Records of a bus's journal.

A record is its length, the CRC-32 of its body, and the body: a letter for the kind, then the
content. A process that is killed while writing leaves half a record at the end, which was never
acknowledged.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent
from airflow_provider_sfevents.emulator.bus.topic import BusTopic

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus

_FRAME = struct.Struct(">II")  # length of the body, its CRC-32
_PLACE = struct.Struct(">qdH")  # position, seconds since the epoch, length of the topic's name
_LENGTH = struct.Struct(">I")
_TOPIC, _SCHEMA, _EVENT, _POSITION = b"T", b"S", b"E", b"P"
_COPY, _NOTED = b"V", b"C"  # a channel's copy of an event; a note with its topics and events
_MOVED, _HEAD = b"M", b"H"  # a new numbering with all its events; the first record of a file


def topic_body(topic: BusTopic) -> bytes:
    return _TOPIC + json.dumps(asdict(topic)).encode()


def schema_body(schema_id: str, schema_json: str) -> bytes:
    return _SCHEMA + json.dumps([schema_id, schema_json]).encode()


def event_body(event: StoredEvent) -> bytes:
    kind = _COPY if event.channel else _EVENT
    names = (f"{event.channel}\0{event.topic}" if event.channel else event.topic).encode()
    return kind + _PLACE.pack(event.position, event.published_at, len(names)) + names + event.wire


def noted_body(
    note: bytes, events: Iterable[StoredEvent] = (), topics: Iterable[BusTopic] = ()
) -> bytes:
    """A note, its topics and events in one record: after a kill all of it is there, or nothing."""
    return _NOTED + _joined([note, *map(topic_body, topics), *map(event_body, events)])


def moved_body(position: int, events: Iterable[StoredEvent], *, old_valid: bool) -> bytes:
    """A new numbering and its events in one record: after a kill all of it is there, or nothing."""
    return _MOVED + _joined([json.dumps([position, old_valid]).encode(), *map(event_body, events)])


def position_body(position: int, at: float) -> bytes:
    return _POSITION + _PLACE.pack(position, at, 0)


def head(bus: Bus) -> bytes:
    """First records of a file: everything that does not expire."""
    topics, schemas, notes, position = bus.standing()
    facts = [
        *(schema_body(*schema) for schema in schemas),
        *(topic_body(topic) for topic in topics),
        *map(noted_body, notes),
    ]
    rest = framed(facts)
    return framed([_HEAD + json.dumps([position, len(rest)]).encode()]) + rest


def head_size(body: bytes) -> int:
    """Bytes that follow the first record of a file, which this is; 0 for any other record."""
    return int(json.loads(body[1:])[1]) if body[:1] == _HEAD else 0


def framed(bodies: Iterable[bytes]) -> bytes:
    """Encoded records: length, checksum and body."""
    return b"".join(_FRAME.pack(len(body), zlib.crc32(body)) + body for body in bodies)


def whole_bodies(content: bytes | mmap.mmap) -> Iterator[tuple[bytes, int]]:
    """Body and end offset of every complete record."""
    at = 0
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        start, at = at + _FRAME.size, at + _FRAME.size + length
        body = content[start:at]
        if len(body) < length or not body or zlib.crc32(body) != checksum:
            return
        yield body, at


def is_cut(content: bytes | mmap.mmap, at: int) -> bool:
    """True if the record that begins there was not written to its end, as a kill leaves it."""
    if at + _FRAME.size > len(content):
        return True
    length, _ = _FRAME.unpack_from(content, at)
    return not length or at + _FRAME.size + length > len(content)


def restore(bus: Bus, body: bytes, since: float) -> float:
    """Restore one record. Return the time of its last event or position; 0 if it does not expire.

    :param since: older events are not restored.
    """
    match body[:1]:
        case b"E" | b"V":
            return _restore_event(bus, body, since)
        case b"C":
            note, *others = _parts(body[1:])
            bus.restore_note(note)
            return max((restore(bus, other, since) for other in others), default=0.0)
        case b"P":
            position, at, _ = _PLACE.unpack_from(body, 1)
            bus.restore_position(position, at)
            return float(at)
        case b"M":
            facts, *events = _parts(body[1:])
            position, old_valid = json.loads(facts)
            bus.restore_numbering(position, old_valid=old_valid)
            return max((_restore_event(bus, event, since) for event in events), default=0.0)
        case b"S":
            bus.restore_schema(*json.loads(body[1:]))
        case b"H":
            bus.restore_head(json.loads(body[1:])[0])
        case _:
            value = json.loads(body[1:])
            tuples = {name: tuple(value[name]) for name in ("members", "fields")}
            bus.restore_topic(BusTopic(**{**value, **tuples}))
    return 0.0


def _restore_event(bus: Bus, body: bytes, since: float) -> float:
    at: float
    position, at, length = _PLACE.unpack_from(body, 1)
    if at < since:
        bus.restore_passed(position)
        return at
    name_at = 1 + _PLACE.size
    channel, _, topic = body[name_at : name_at + length].decode().rpartition("\0")
    wire = body[name_at + length :]
    # All events of a topic share one string.
    bus.restore_event(StoredEvent(position, at, sys.intern(topic), wire, channel))
    return at


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _parts(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        start = at + _LENGTH.size
        [length] = _LENGTH.unpack_from(content, at)
        at = start + length
        yield content[start:at]
