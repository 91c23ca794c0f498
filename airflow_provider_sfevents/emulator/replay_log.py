"""What a bus keeps in order: the places it has given out, and each topic's events. Pure; the caller locks.

Both grow at the end and are trimmed at the front, so that a look-up is a bisection and a million events stay cheap.
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

    :param position: its place; the replay id is how clients see it.
    :param published_at: seconds since the epoch.
    :param topic: the topic it was published to; channels carry it too.
    :param wire: a FetchResponse with this event alone. Encoded messages merge when they are put one after the other,
        so a response is these bytes joined.
    :param channel: the one channel that carries this copy in place of the event itself; empty for the event. A copy
        without bytes says that the channel leaves the event out.
    """

    position: int
    published_at: float
    topic: str
    wire: bytes
    channel: str = ""


class _Aging:
    """Places in order, each with its time. What has expired is skipped at once and taken out by and by."""

    def __init__(self) -> None:
        self._positions = array("q")
        self._times = array("d")
        self._first = 0

    def __len__(self) -> int:
        return len(self._positions) - self._first

    @property
    def oldest(self) -> float | None:
        """When the oldest place here was given out."""
        return self._times[self._first] if len(self) else None

    @property
    def newest(self) -> int | None:
        return self._positions[-1] if len(self) else None

    def add(self, position: int, at: float) -> None:
        self._positions.append(position)
        self._times.append(at)

    def holds(self, position: int) -> bool:
        """Whether this place is here."""
        return self._at(position) is not None

    def drop_before(self, moment: float) -> None:
        """Forget what is older than this."""
        if not len(self) or self._times[self._first] >= moment:
            return
        gone = bisect_left(self._times, moment, self._first)
        self._empty(self._first, gone)
        self._first = gone
        # To take out what is in front moves all the rest: so a quarter at a time.
        if gone * _TAKEN_OUT >= len(self._times):
            self._delete(0, gone)
            self._first = 0

    def _at(self, position: int) -> int | None:
        """Where in the columns this place is."""
        at = bisect_left(self._positions, position, self._first)
        return at if at < len(self._positions) and self._positions[at] == position else None

    def _empty(self, first: int, end: int) -> None:
        """Give back the memory of what is skipped."""

    def _delete(self, first: int, end: int) -> None:
        del self._positions[first:end]
        del self._times[first:end]


class IssuedPositions(_Aging):
    """Every place a client may have heard of and that is young enough to start after."""


class TopicLog(_Aging):
    """The events of a topic or channel, oldest first.

    Kept by column: millions of objects would cost more than their bytes, and Python's garbage collector would look through them all.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: list[tuple[str, str]] = []  # topic and channel; few different ones
        self._wires: list[bytes] = []
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def append(self, event: StoredEvent) -> None:
        self._positions.append(event.position)
        self._times.append(event.published_at)
        self._names.append(self._shared(event))
        self._wires.append(event.wire)

    def replace(self, copy: StoredEvent) -> None:
        """Carry this copy in place of the event that has its place, if there is one."""
        at = self._at(copy.position)
        if at is not None:
            self._times[at] = copy.published_at
            self._names[at] = self._shared(copy)
            self._wires[at] = copy.wire

    def remove(self, position: int) -> None:
        """Leave out the event that has this place, if there is one."""
        at = self._at(position)
        if at is not None:
            self._delete(at, at + 1)

    def after(self, position: int, limit: int) -> list[StoredEvent]:
        """At most `limit` events strictly after this place."""
        first = bisect_right(self._positions, position, self._first)
        return self._events(first, min(first + limit, len(self._positions)))

    def has_after(self, position: int) -> bool:
        return len(self) > 0 and self._positions[-1] > position

    def before(self, position: int, count: int) -> int:
        """Place that lies so many events before this one."""
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
            place, published = self._positions[at], self._times[at]
            found.append(StoredEvent(place, published, topic, self._wires[at], channel))
        return found

    def _shared(self, event: StoredEvent) -> tuple[str, str]:
        """Names of an event, one object for all events that have them."""
        names = (event.topic, event.channel)
        return self._known.setdefault(names, names)
