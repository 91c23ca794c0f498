"""Rules of a watcher: when it announces a batch, and how long it waits. Pure: no clock, no network.

1. A batch is announced once: with its first events if no run is queued or running. The run takes a
   moment to start, and then fetches what has come until then.
2. While a run is queued or running, events are gathered: until enough are staged, or for `max_wait`
   after the first one. The run may still take them, and another one could not start yet.
3. After that, nothing is announced until the position has moved past the batch, unless no run is
   left to land it: events that are not fetched leave the bus after 72 hours.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.sidecar_files import Announced

SETTLE_SECONDS = 5.0
"""Seconds from an announcement until it is recorded.

Airflow's triggerer stores an event about a second after it has received it."""

STRANGE_SECONDS = 10.0
"""Seconds for which events that another process staged are left to it.

The watcher of another triggerer may be about to announce them."""

LOOK_SECONDS = 900.0
"""While listening: seconds between two checks for a manual change of position or connection.

No event reports such a change."""

CONNECTION_SECONDS = 60.0
"""In trouble: seconds between two checks whether its cause has been changed."""

WELL_SECONDS = 60.0
"""Seconds of listening after which the last error is over: a refusal comes sooner."""

RETRY_SECONDS = 300.0
"""In trouble that the connection does not explain: seconds between two tries.

Each try costs a call. A refused login is not repeated."""

LONGEST_AGAIN = timedelta(hours=6)

_MOST_EVENTS = 10_000  # what an operator takes into a batch by default
_LONGEST_WAIT = 3600.0
_LONGEST_PAUSE = 30.0
_LONGEST_BACKOFF = 300.0
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Limits at which a batch is announced.

    :param max_events: number of staged events at which a batch is announced at once.
    :param max_wait: seconds after its first event until a batch is announced anyway, while a run
        is queued or running.
    :param again_after: seconds until a batch on which no run works is announced a second time;
        doubled each further time, up to 6 hours.
    :raises ConfigurationError: a value is out of its range.
    """

    max_events: int = 100
    max_wait: float = 2.0
    again_after: float = 900.0

    def __post_init__(self) -> None:
        if type(self.max_events) is not int or not 1 <= self.max_events <= _MOST_EVENTS:
            raise ConfigurationError(
                f"max_events={self.max_events!r} cannot be used: give a whole number from 1 to "
                f"{_MOST_EVENTS}."
            )
        _check_seconds("max_wait", self.max_wait, 0.0, _LONGEST_WAIT)
        _check_seconds("again_after", self.again_after, 1.0, LONGEST_AGAIN.total_seconds())


def _check_seconds(name: str, value: object, least: float, most: float) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not least <= value <= most  # not true of nan either
    ):
        raise ConfigurationError(
            f"{name}={value!r} cannot be used: give seconds from {least:g} to {most:g}."
        )


class Step(enum.Enum):
    """Next step for the next batch."""

    LISTEN = "no event is known: subscribe"
    ANNOUNCE = "announce the batch"
    ANNOUNCE_IF_IDLE = "announce the batch, unless a run is queued or running"
    WAIT = "another process has the batch: look again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """Known state of the next batch.

    :param events: number of events, staged or received.
    :param held: a live process holds the lease.
    :param own: this watcher has just received these events itself.
    :param announced: the last announcement of this batch, by this watcher or one before it.
    :param known_for: seconds since this watcher first saw events of this batch while no process
        held the lease.
    """

    events: int = 0
    held: bool = False
    own: bool = False
    announced: Announced | None = None
    known_for: float = 0.0


def next_step(scene: WatchState, rules: Rules, now: datetime) -> Step:
    """Decide whether to listen, to leave the batch alone, or to announce it.

    :param now: with a time zone.
    """
    if scene.held:
        return Step.WAIT
    if scene.announced is not None:
        since = now - datetime.fromisoformat(scene.announced.at)
        patience = again_after(rules, scene.announced.times)
        return Step.ANNOUNCE_IF_IDLE if since >= patience else Step.WAIT
    if not scene.events:
        return Step.LISTEN
    if scene.own:
        return Step.ANNOUNCE
    return Step.ANNOUNCE_IF_IDLE if scene.known_for >= STRANGE_SECONDS else Step.WAIT


def gather_seconds(rules: Rules, *, at_work: bool) -> float:
    """Return the seconds after the first event for which events are gathered.

    :param at_work: a run is queued or running.
    """
    return rules.max_wait if at_work else 0.0


def again_after(rules: Rules, times: int) -> timedelta:
    """Return the time between the last of `times` announcements and the next one."""
    doubled = rules.again_after * 2 ** min(max(times - 1, 0), _MOST_DOUBLINGS)
    return min(timedelta(seconds=doubled), LONGEST_AGAIN)


def is_settled(announced: Announced, now: datetime) -> bool:
    """Return whether Airflow has had time to store the announcement, so that it may be recorded."""
    return now - datetime.fromisoformat(announced.at) >= timedelta(seconds=SETTLE_SECONDS)


def pause(waited: float) -> float:
    """Return the seconds until the next look at a batch that was left to another process.

    They are a tenth of `waited`, the seconds so far: the batch after a quick run is seen at once,
    and a long run costs few looks.
    """
    return min(max(waited / 10, 1.0), _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFailure:
    """Error that keeps a watcher from watching.

    :param kind: type of the error; its message may name a call, and differ each time.
    :param for_people: a person has to act.
    :param login: the login was refused.
    :param since: time of its first occurrence.
    :param tried_at: time of its last occurrence.
    :param tries: number of failed tries in a row.
    :param announced: number of notifications; `announced_at` is the time of the last.
    """

    kind: str
    message: str
    for_people: bool
    login: bool
    since: datetime
    tried_at: datetime
    tries: int = 1
    announced: int = 0
    announced_at: datetime | None = None


def next_trouble(before: WatchFailure | None, error: Exception, now: datetime) -> WatchFailure:
    """Return the failure after one more error: the first one's time, and one more failed try."""
    message = str(error) or type(error).__name__
    first = before or WatchFailure(
        kind="", message="", for_people=False, login=False, since=now, tried_at=now, tries=0
    )
    return replace(
        first,
        kind=type(error).__name__,
        message=message,
        for_people=is_for_people(error),
        login=isinstance(error, AuthenticationError),
        tried_at=now,
        tries=first.tries + 1,
    )


def was_well(listens_since: datetime | None, now: datetime) -> bool:
    """Return whether the watcher has listened for so long that an error counts as a new one."""
    return listens_since is not None and now - listens_since >= timedelta(seconds=RETRY_SECONDS)


def told(trouble: WatchFailure, now: datetime) -> WatchFailure:
    """Return the failure with one more notification counted."""
    return replace(trouble, announced=trouble.announced + 1, announced_at=now)


def is_for_people(error: Exception) -> bool:
    """Return whether a person has to act; other errors pass without that."""
    return isinstance(error, ConfigurationError | AuthenticationError | QuotaExceededError)


def is_due(trouble: WatchFailure, rules: Rules, now: datetime) -> bool:
    """Return whether a notification is due.

    Errors that a person must fix are reported at once; others if they have lasted for
    `again_after`.
    """
    if trouble.announced_at is not None:
        return now - trouble.announced_at >= again_after(rules, trouble.announced)
    return trouble.for_people or now - trouble.since >= timedelta(seconds=rules.again_after)


def is_worth_a_try(trouble: WatchFailure, rules: Rules, now: datetime, *, changed: bool) -> bool:
    """Return whether to try again.

    :param changed: the connection, the position or the staged batch is not what it was.
    """
    if changed or not trouble.for_people or is_due(trouble, rules, now):
        return True
    return not trouble.login and now - trouble.tried_at >= timedelta(seconds=RETRY_SECONDS)


def trouble_pause(trouble: WatchFailure, spread: float) -> float:
    """Return the seconds until the next look.

    :param spread: random, from 0 to 1, so that a thousand watchers do not return at once.
    """
    if trouble.for_people:
        return CONNECTION_SECONDS
    return backoff(trouble.tries, spread)


def backoff(tries: int, spread: float) -> float:
    """Return the seconds before the next try: doubled after each failed try, up to five minutes.

    :param tries: number of failed tries in a row.
    :param spread: as in `trouble_pause`.
    """
    longest = min(2.0 ** min(tries, _MOST_DOUBLINGS), _LONGEST_BACKOFF)
    return longest * (1 + spread) / 2
