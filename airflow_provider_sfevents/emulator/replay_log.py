"""What a bus keeps in order: the places it has given out, and each topic's events. Pure; the caller locks.

Both grow at the end and are trimmed at the front, so that a look-up is a bisection and a million events stay cheap.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event on the bus.

    :param position: its place; the replay id is how clients see it.
    :param published_at: seconds since the epoch.
    :param topic: the topic it was published to; channels carry it too.
    :param wire: a FetchResponse with this event alone. Encoded messages merge when they are put one after the other,
        so a response is these bytes joined.
    :param channel: the one channel that carries this copy in place of the event itself; empty for the event.
    """

    position: int
    published_at: float
    topic: str
    wire: bytes
    channel: str = ""


class TopicLog:
    """The events of a topic or channel, oldest first."""

    def __init__(self) -> None:
        self._positions = array("q")
        self._events: list[StoredEvent] = []

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: StoredEvent) -> None:
        self._positions.append(event.position)
        self._events.append(event)

    def replace(self, copy: StoredEvent) -> None:
        """Carry this copy in place of the event that has its place, if there is one."""
        at = bisect_left(self._positions, copy.position)
        if at < len(self._positions) and self._positions[at] == copy.position:
            self._events[at] = copy

    def after(self, position: int, limit: int) -> list[StoredEvent]:
        """At most `limit` events strictly after this place."""
        first = bisect_right(self._positions, position)
        return self._events[first : first + limit]

    def has_after(self, position: int) -> bool:
        return bool(self._positions) and self._positions[-1] > position

    def before(self, position: int, count: int) -> int:
        """Place that lies so many events before this one."""
        at = max(0, bisect_right(self._positions, position) - count)
        return self._positions[at] - 1 if at < len(self._positions) else position

    def last(self, count: int) -> list[StoredEvent]:
        return self._events[-count:] if count else []

    def drop_before(self, moment: float) -> None:
        """Forget events published before this time."""
        if not self._events or self._events[0].published_at >= moment:
            return
        gone = bisect_left(self._events, moment, key=lambda event: event.published_at)
        del self._events[:gone]
        del self._positions[:gone]


class IssuedPositions:
    """Every place a client may have heard of and that is young enough to start after."""

    def __init__(self) -> None:
        self._positions = array("q")
        self._times = array("d")

    @property
    def newest(self) -> int | None:
        return self._positions[-1] if self._positions else None

    def add(self, position: int, at: float) -> None:
        self._positions.append(position)
        self._times.append(at)

    def holds(self, position: int) -> bool:
        at = bisect_left(self._positions, position)
        return at < len(self._positions) and self._positions[at] == position

    def drop_before(self, moment: float) -> None:
        if not self._times or self._times[0] >= moment:
            return
        gone = bisect_left(self._times, moment)
        del self._times[:gone]
        del self._positions[:gone]
