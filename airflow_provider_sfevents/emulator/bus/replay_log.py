"""Ordered logs of a bus: issued positions, and the events of each topic. Pure; the caller locks.

Both grow at the end and are trimmed at the front, so a look-up is a bisection.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from typing_extensions import override

_TAKEN_OUT = 4


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event on the bus.

    :param position: position on the bus; clients see it as the replay id.
    :param published_at: seconds since the epoch.
    :param topic: topic that it was published to; channels carry it too.
    :param wire: a FetchResponse with this event alone. Encoded protobuf messages merge by
        concatenation, so a response is these bytes joined.
    :param channel: channel that carries this copy in place of the event; empty for the event
        itself. A copy without bytes removes the event from the channel.
    """

    position: int
    published_at: float
    topic: str
    wire: bytes
    channel: str = ""


class _Aging:
    """Positions in order, each with its time.

    Expired entries are skipped at once and deleted later, in larger blocks.
    """

    def __init__(self) -> None:
        self._positions = array("q")
        self._times = array("d")
        self._first = 0

    def __len__(self) -> int:
        return len(self._positions) - self._first

    @property
    def oldest(self) -> float | None:
        """Time of the oldest position."""
        return self._times[self._first] if len(self) else None

    @property
    def newest(self) -> int | None:
        return self._positions[-1] if len(self) else None

    def add(self, position: int, at: float) -> None:
        self._positions.append(position)
        self._times.append(at)

    def holds(self, position: int, since: float = 0.0) -> bool:
        """True if this position is in the log and is not older than this time."""
        at = self._at(position)
        return at is not None and self._times[at] >= since

    def drop_before(self, moment: float) -> None:
        """Remove entries before this moment."""
        if not len(self) or self._times[self._first] >= moment:
            return
        gone = bisect_left(self._times, moment, self._first)
        self._empty(self._first, gone)
        self._first = gone
        # Deleting at the front moves the rest of the array, so delete a quarter at a time.
        if gone * _TAKEN_OUT >= len(self._times):
            self._delete(0, gone)
            self._first = 0

    def _at(self, position: int) -> int | None:
        """Index of a position in the columns."""
        at = bisect_left(self._positions, position, self._first)
        return at if at < len(self._positions) and self._positions[at] == position else None

    def _empty(self, first: int, end: int) -> None:
        """Free the memory of skipped entries."""

    def _delete(self, first: int, end: int) -> None:
        del self._positions[first:end]
        del self._times[first:end]


class IssuedPositions(_Aging):
    """Every issued position that is young enough to start after."""


class TopicLog(_Aging):
    """Events of a topic or channel, oldest first.

    Stored in columns: millions of objects would need more memory than their bytes and slow down the
    garbage collector.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: list[tuple[str, str]] = []  # topic and channel; few distinct pairs
        self._wires: list[bytes] = []
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def append(self, event: StoredEvent) -> None:
        self._positions.append(event.position)
        self._times.append(event.published_at)
        self._names.append(self._shared(event))
        self._wires.append(event.wire)

    def replace(self, copy: StoredEvent) -> None:
        """Replace the event at the copy's position, if there is one."""
        at = self._at(copy.position)
        if at is not None:
            self._times[at] = copy.published_at
            self._names[at] = self._shared(copy)
            self._wires[at] = copy.wire

    def remove(self, position: int) -> None:
        """Remove the event at this position, if there is one."""
        at = self._at(position)
        if at is not None:
            self._delete(at, at + 1)

    def after(self, position: int, limit: int) -> list[StoredEvent]:
        """At most `limit` events after this position."""
        first = bisect_right(self._positions, position, self._first)
        return self._events(first, min(first + limit, len(self._positions)))

    def has_after(self, position: int) -> bool:
        return len(self) > 0 and self._positions[-1] > position

    def before(self, position: int, count: int) -> int:
        """Position `count` events before this one."""
        at = max(self._first, bisect_right(self._positions, position, self._first) - count)
        return self._positions[at] - 1 if at < len(self._positions) else position

    def last(self, count: int) -> list[StoredEvent]:
        end = len(self._positions)
        return self._events(max(self._first, end - count), end)

    @override
    def _empty(self, first: int, end: int) -> None:
        self._wires[first:end] = [b""] * (end - first)

    @override
    def _delete(self, first: int, end: int) -> None:
        super()._delete(first, end)
        del self._names[first:end]
        del self._wires[first:end]

    def _events(self, first: int, end: int) -> list[StoredEvent]:
        found = []
        for at in range(first, end):
            topic, channel = self._names[at]
            position, published = self._positions[at], self._times[at]
            found.append(StoredEvent(position, published, topic, self._wires[at], channel))
        return found

    def _shared(self, event: StoredEvent) -> tuple[str, str]:
        """Topic and channel of an event, as one shared tuple."""
        names = (event.topic, event.channel)
        return self._known.setdefault(names, names)
