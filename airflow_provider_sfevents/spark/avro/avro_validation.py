"""Validate payloads against a schema without decoding them. No I/O, no Spark.

Each step reads the same field of all payloads at once, so that ten thousand payloads take little
longer than to decode them. Only lengths and indexes are checked, not whether text is UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_sfevents.staging.payload_bounds import (
    MOST_ITEMS_WITHOUT_BYTES,
    has_items_without_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Step = Callable[["_PayloadBytes", Places], Places]

_LONGEST_VARINT = 10
_ALL_BUT_SIGN = 2**63 - 1
_OF_ONE_BYTE = np.array([byte >> 1 ^ -(byte & 1) for byte in range(256)], np.int64)
"""Number of a varint of one byte; meaningless from 128 on, as more bytes follow these."""


def readable(schema: Mapping[str, Any], payloads: Sequence[bytes]) -> list[int]:
    """Indexes of the payloads that the schema reads to their last byte, ascending.

    A payload with more than `MOST_ITEMS_WITHOUT_BYTES` list items that take no bytes is left out.

    :param schema: as fastavro's `parse_schema` gives it, with full names; of a record that does not
        contain itself.
    """
    step = _compiled(schema, {})
    if has_items_without_bytes(schema):
        # One by one: a walk that has left its payload would count the items of the next one.
        return [index for index, payload in enumerate(payloads) if _readable(step, [payload])]
    return _readable(step, payloads)


def _readable(step: Step, payloads: Sequence[bytes]) -> list[int]:
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    ends = np.cumsum(lengths)
    # No step goes back: one that has left its payload never reaches the payload's end again.
    walked = step(_PayloadBytes(payloads, ends), ends - lengths)
    found: list[int] = np.flatnonzero(walked == ends).tolist()
    return found


class _PayloadBytes:
    """All payloads, concatenated.

    :ivar nowhere: a place behind all of them, where there are only zeros.
    :ivar items_left: number of items without bytes that may still come.
    """

    def __init__(self, payloads: Sequence[bytes], ends: Places) -> None:
        self._bytes = np.frombuffer(b"".join([*payloads, b"\x00\x00"]), np.uint8)
        self.nowhere = len(self._bytes) - 1
        self._ends = np.append(ends, self.nowhere)
        self.items_left = MOST_ITEMS_WITHOUT_BYTES

    def at(self, places: Places) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = self._bytes.take(places, mode="clip")
        return found

    def end_of(self, places: Places) -> Places:
        """Ends of the payloads that hold these places; `nowhere` for places behind all of them."""
        found: Places = self._ends.take(
            np.searchsorted(self._ends, places, side="right"), mode="clip"
        )
        return found

    def number(self, places: Places) -> tuple[Places, Places]:
        """Return the next number at each place, and the places behind."""
        byte = self.at(places)
        found = _OF_ONE_BYTE.take(byte)
        behind = places + 1
        more = np.flatnonzero(byte >= 0x80)
        if more.size:
            found[more], behind[more] = self._long_number(places[more])
        return found, behind

    def _long_number(self, places: Places) -> tuple[Places, Places]:
        found = np.zeros(len(places), np.int64)
        behind = places
        more = np.arange(len(places))
        for length in range(_LONGEST_VARINT):
            byte = self.at(behind[more])
            found[more] |= (byte & 0x7F).astype(np.int64) << (7 * length)
            behind[more] += 1
            more = more[byte >= 0x80]
            if not more.size:
                break
        behind[more] = self.nowhere
        return ((found >> 1) & _ALL_BUT_SIGN) ^ -(found & 1), behind

    def beyond(self, places: Places, lengths: Places) -> Places:
        """Move on by lengths; a length that is negative or longer than the rest leads nowhere."""
        left = np.maximum(self.nowhere - places, 0)
        wrong = lengths.view(np.uint64) > left.view(np.uint64)  # so a negative one is very long
        behind: Places = places + lengths
        behind[wrong] = self.nowhere
        return behind


def _compiled(avro: Any, named: dict[str, Step]) -> Step:
    """Make the step that reads values of a type."""
    if isinstance(avro, list):
        return _union([_compiled(branch, named) for branch in avro])
    if isinstance(avro, str):
        return _PLAIN[avro] if avro in _PLAIN else named[avro]
    step = _complex(avro, named)
    if "name" in avro:
        named[avro["name"]] = step
    return step


def _complex(avro: Mapping[str, Any], named: dict[str, Step]) -> Step:
    match avro["type"]:
        case "record":
            steps = [_compiled(field["type"], named) for field in avro["fields"]]
            return _in_turn([step for step in steps if step is not _nothing])
        case "enum":
            return _index(len(avro["symbols"]))
        case "fixed":
            return _fixed(avro["size"]) if avro["size"] else _nothing
        case "array":
            return _blocks(_compiled(avro["items"], named))
        case "map":
            return _blocks(_in_turn([_text, _compiled(avro["values"], named)]))
        case inner:
            return _compiled(inner, named)


def _in_turn(steps: Sequence[Step]) -> Step:
    if not steps:
        return _nothing

    def walk(payloads: _PayloadBytes, places: Places) -> Places:
        for step in steps:
            places = step(payloads, places)
        return places

    return walk


def _union(branches: Sequence[Step]) -> Step:
    def walk(payloads: _PayloadBytes, places: Places) -> Places:
        chosen, behind = payloads.number(places)
        behind[chosen.view(np.uint64) >= len(branches)] = payloads.nowhere
        for index, branch in enumerate(branches):
            if branch is _nothing:
                continue
            those = np.flatnonzero(chosen == index)
            if those.size:
                behind[those] = branch(payloads, behind[those])
        return behind

    return walk


def _index(size: int) -> Step:
    def walk(payloads: _PayloadBytes, places: Places) -> Places:
        index, behind = payloads.number(places)
        behind[(index < 0) | (index >= size)] = payloads.nowhere
        return behind

    return walk


def _fixed(length: int) -> Step:
    def walk(_payloads: _PayloadBytes, places: Places) -> Places:
        return places + length

    return walk


def _nothing(_payloads: _PayloadBytes, places: Places) -> Places:
    return places


def _long(payloads: _PayloadBytes, places: Places) -> Places:
    return payloads.number(places)[1]


def _int(payloads: _PayloadBytes, places: Places) -> Places:
    number, behind = payloads.number(places)
    return np.where((number < -(2**31)) | (number >= 2**31), payloads.nowhere, behind)


def _text(payloads: _PayloadBytes, places: Places) -> Places:
    length, behind = payloads.number(places)
    return payloads.beyond(behind, length)


def _boolean(payloads: _PayloadBytes, places: Places) -> Places:
    return np.where(payloads.at(places) > 1, payloads.nowhere, places + 1)


def _blocks(item: Step) -> Step:
    """Items in counted blocks, of which the last one is empty.

    A negative count is followed by the block's length.
    """

    def walk(payloads: _PayloadBytes, places: Places) -> Places:
        places = places.copy()
        rows = np.arange(len(places))
        while rows.size:
            left, places[rows] = payloads.number(places[rows])
            measured = rows[left < 0]
            places[measured] = payloads.number(places[measured])[1]
            left = np.abs(left)
            rows, left = rows[left != 0], left[left != 0]
            if item is _nothing:
                rows = rows[_counted(payloads, places, rows, left)]
                continue
            ends = payloads.end_of(places[rows])
            inside = rows
            while inside.size:
                places[inside] = item(payloads, places[inside])
                # A count may be any number: the payload's end is where its items end at the latest.
                reached = places[inside]
                lost = (reached > ends) | (reached >= payloads.nowhere) | (left < 0)
                places[inside[lost]] = payloads.nowhere
                open_ = ~lost & (left != 1)
                inside, ends, left = inside[open_], ends[open_], left[open_] - 1
            rows = rows[places[rows] < payloads.nowhere]
        return places

    return walk


def _counted(
    payloads: _PayloadBytes, places: Places, rows: Places, items: Places
) -> NDArray[np.bool_]:
    """Count items that take no bytes; too many lead nowhere. Return the lists that continue."""
    # A count may be so large that its absolute value, or the sum of two, is negative.
    fits = (items > 0) & (items <= payloads.items_left)
    payloads.items_left -= int(items[fits].sum())
    places[rows[~fits]] = payloads.nowhere
    return fits & (places[rows] < payloads.nowhere)


_PLAIN: dict[str, Step] = {
    "null": _nothing,
    "float": _fixed(4),
    "double": _fixed(8),
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "string": _text,
    "bytes": _text,
}
