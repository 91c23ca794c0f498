"""Bounds of a batch: when it is full, and how much room is left. Pure: times are passed in.

Each bound ends a batch alone.

1. `max_events`, `max_bytes` and `until` end it exactly: at the event that fills it, or that is
   created at or after `until`. An event that is delivered beyond is the next batch's.
2. `max_seconds` and `idle_seconds` end the requests. Events that were requested by then and are
   still delivered belong to the batch, because they are paid for.
3. A batch that was announced takes what is pending, and waits for nothing more (`of_announced`).
   The service answers a request only when it has an event or a keepalive is due, so a short silence
   must show that nothing is pending. A keepalive shows it at once.
4. Until as many events are there as were announced, some are pending, and `idle_seconds` counts.
5. The rest of a transaction may come after a keepalive. So where transactions are followed, only
   silence ends an announced batch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub import credit

if TYPE_CHECKING:
    from collections.abc import Sequence

EndedBy = Literal[
    "max_events", "max_bytes", "max_seconds", "idle_seconds", "until", "error", "stopped", "lost"
]

# A larger bound is a typing error: no org may have so much delivered, and no task should run so
# long.
_MOST_EVENTS = 1_000_000_000
_MOST_BYTES = 1 << 50
_MOST_SECONDS = 7 * 24 * 3600.0

PENDING_SECONDS = 0.3
"""Silence after which an announced batch ends; at least `PENDING_ANSWERS` times the time in which
the service has answered. Events that come later are announced as the next batch."""

PENDING_ANSWERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of a batch: events, bytes and time.

    :param idle_seconds: the batch ends when no event has come for this many seconds.
    :param until: an event created at or after this time ends the batch; one without a readable time
        does not count.
    :param learn_seconds: if set, silence does not end the batch before an event or a keepalive has
        come, or before this many seconds have passed. A keepalive comes at least every 270 s.
    :param pending_seconds: of an announced batch: takes the place of `idle_seconds`.
    :param expected: number of announced events; before so many are there, `idle_seconds` counts.
    :param keepalive_ends: a keepalive ends the batch, too, and counts as silence.
    """

    max_events: int = 10_000
    max_bytes: int | None = None
    max_seconds: float = 600.0
    idle_seconds: float = 30.0
    until: datetime | None = None
    learn_seconds: float | None = None
    pending_seconds: float | None = None
    expected: int = 0
    keepalive_ends: bool = False

    def __post_init__(self) -> None:
        _check_count("max_events", self.max_events, _MOST_EVENTS)
        if self.max_bytes is not None:
            _check_count("max_bytes", self.max_bytes, _MOST_BYTES)
        _check_seconds("max_seconds", self.max_seconds)
        _check_seconds("idle_seconds", self.idle_seconds)
        if self.learn_seconds is not None:
            _check_seconds("learn_seconds", self.learn_seconds)
        if self.until is not None:
            object.__setattr__(self, "until", _in_utc(self.until))

    @classmethod
    def by_count(cls, max_events: int) -> Bounds:
        """Bounds for a wait that ends when enough events have come.

        Its time limits are the largest.
        """
        return cls(max_events=max_events, max_seconds=_MOST_SECONDS, idle_seconds=_MOST_SECONDS)

    def of_announced(
        self, settle_seconds: float, *, expected: int = 0, follows_transactions: bool
    ) -> Bounds:
        """Return the bounds of a batch that a sensor or watcher has announced.

        :param settle_seconds: time for the rest of a transaction to come.
        :param expected: number of announced events.
        :param follows_transactions: the batch's changes are applied, transaction by transaction.
        """
        _check_seconds("settle_seconds", settle_seconds)
        silence = settle_seconds if follows_transactions else PENDING_SECONDS
        return replace(
            self,
            pending_seconds=min(silence, self.idle_seconds),
            expected=expected,
            keepalive_ends=not follows_transactions,
        )

    def for_answers_in(self, seconds: float) -> Bounds:
        """Return the bounds for a service whose last answer took so long."""
        if self.pending_seconds is None:
            return self
        pending = max(self.pending_seconds, PENDING_ANSWERS * seconds)
        return replace(self, pending_seconds=min(pending, self.idle_seconds))

    def silence_seconds(self, events: int) -> float:
        """Return the silence that ends a batch of so many events."""
        if self.pending_seconds is None or events < self.expected:
            return self.idle_seconds
        return self.pending_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedProgress:
    """Events of the batch that are staged already.

    :param until_reached: one of them was created at or after `until`.
    """

    events: int = 0
    bytes: int = 0
    until_reached: bool = False


@dataclass(slots=True, kw_only=True)
class BatchTally:
    """Events and bytes that a batch has taken so far. Times are monotonic seconds.

    :param silent_since: beginning of the silence that may end the batch.
    :param learned: an event or keepalive came.
    :param caught_up: the last response was a keepalive.
    """

    started_at: float
    silent_since: float
    already: StagedProgress = field(default_factory=StagedProgress)
    events: int = 0
    bytes: int = 0
    learned: bool = False
    caught_up: bool = False
    until_reached: bool = False

    def count(self, events: int, *, caught_up: bool = False) -> None:
        """Count a response with so many events; a keepalive has none.

        :param caught_up: the response shows that the service has no event left to send.
        """
        self.events += events
        self.learned, self.caught_up = True, caught_up

    def weigh(self, size: int) -> None:
        """Add the payload bytes of the counted events."""
        self.bytes += size

    @property
    def mean_event_bytes(self) -> float:
        events = self.events + self.already.events
        return (self.bytes + self.already.bytes) / events if events else credit.ASSUMED_EVENT_BYTES


def room_events(bounds: Bounds, tally: BatchTally) -> int:
    """Events that the batch may still hold; none once `max_bytes` or `until` is reached."""
    if tally.until_reached or ((room := room_bytes(bounds, tally)) is not None and room <= 0):
        return 0
    return max(0, bounds.max_events - tally.already.events - tally.events)


def room_bytes(bounds: Bounds, tally: BatchTally) -> int | None:
    """Payload bytes that the batch may still hold; None: no limit."""
    if bounds.max_bytes is None:
        return None
    return bounds.max_bytes - tally.already.bytes - tally.bytes


def fitting(
    bounds: Bounds,
    tally: BatchTally,
    events: int,
    *,
    sizes: Sequence[int] = (),
    times: Sequence[datetime | None] = (),
) -> tuple[int, bool]:
    """Number of delivered events that belong to the batch, and whether `until` is reached.

    The events that belong to it come first.

    :param sizes: of the payloads; needed with `max_bytes` only.
    :param times: of the events' creation, None if unknown; needed with `until` only.
    """
    count = min(events, room_events(bounds, tally))
    room = room_bytes(bounds, tally)
    if room is not None:
        count = min(count, bisect_left(list(accumulate(sizes)), room) + 1)
    for at, time in enumerate(times[:count]):
        if bounds.until is not None and time is not None and time >= bounds.until:
            return at + 1, True
    return count, False


def wanted(bounds: Bounds, tally: BatchTally) -> int:
    """Credit to have outstanding now, as far as the counted bounds allow."""
    return credit.wanted(
        room_events(bounds, tally), room_bytes(bounds, tally), tally.mean_event_bytes
    )


def ended_by(bounds: Bounds, tally: BatchTally, now: float) -> EndedBy | None:
    """The bound that is reached, if any; the counted ones before the timed ones."""
    if tally.already.events + tally.events >= bounds.max_events:
        return "max_events"
    if (room := room_bytes(bounds, tally)) is not None and room <= 0:
        return "max_bytes"
    if tally.until_reached:
        return "until"
    if now >= tally.started_at + bounds.max_seconds:
        return "max_seconds"
    if now >= _idle_at(bounds, tally) or (bounds.keepalive_ends and tally.caught_up):
        return "idle_seconds"
    return None


def is_short_silence(bounds: Bounds, tally: BatchTally, now: float) -> bool:
    """True if the silence is shorter than `idle_seconds`, and no keepalive came in it.

    Only an announced batch ends so. Its silence does not show that no event is pending.
    """
    return not tally.caught_up and now < tally.silent_since + bounds.idle_seconds


def seconds_left(bounds: Bounds, tally: BatchTally, now: float) -> float:
    """Seconds to listen before one of the timed bounds is reached if nothing comes."""
    return max(0.0, min(time_left(bounds, tally, now), _idle_at(bounds, tally) - now))


def time_left(bounds: Bounds, tally: BatchTally, now: float) -> float:
    """Seconds of `max_seconds` that are left.

    A service that is away may come back within this time: its silence does not count as idle.
    """
    return max(0.0, tally.started_at + bounds.max_seconds - now)


def _idle_at(bounds: Bounds, tally: BatchTally) -> float:
    caught_up = tally.silent_since + bounds.silence_seconds(tally.already.events + tally.events)
    if bounds.learn_seconds is None or tally.learned:
        return caught_up
    return max(caught_up, tally.started_at + bounds.learn_seconds)


def _check_count(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"{name} is {value!r}. Give a whole number from 1 to {most:,}.")


def _check_seconds(name: str, value: object) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 < value <= _MOST_SECONDS:  # type: ignore[operator]
        raise ConfigurationError(
            f"{name} is {value!r}. Give seconds, above 0 and up to {_MOST_SECONDS:,.0f}."
        )


def _in_utc(until: object) -> datetime:
    if not isinstance(until, datetime) or until.tzinfo is None:
        raise ConfigurationError(
            f"until is {until!r}. Give a time with its time zone, such as "
            "2026-01-31T00:00:00+00:00."
        )
    return until.astimezone(UTC)
