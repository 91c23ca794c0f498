"""When a watcher announces a batch, and how long it waits. Values in, a step out: no clock, no network.

A batch is announced once: when enough of it is staged, or some seconds after its first event. Then nothing is announced until the
position has moved past it, unless whoever should have landed it is gone: events that nobody fetches leave the bus after 72 hours.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceeded,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.marks import Announced

SETTLE_SECONDS = 5.0
"""After an announcement, before it is remembered: Airflow's triggerer stores an event about a second after it was told."""

STRANGE_SECONDS = 10.0
"""How long events that somebody else staged are left to that one: another triggerer's watcher is about to announce them."""

LOOK_SECONDS = 900.0
"""While listening: between two looks at whether the position or the connection was changed by hand, of which no event tells."""

CONNECTION_SECONDS = 60.0
"""In trouble: between two looks at whether somebody has changed what is wrong."""

RETRY_SECONDS = 300.0
"""In trouble that the connection does not explain: between two tries, which cost a call each. A login that was refused is not repeated."""

LONGEST_AGAIN = timedelta(hours=6)

_MOST_EVENTS = 10_000  # what an operator takes into a batch by default
_LONGEST_WAIT = 3600.0
_LONGEST_PAUSE = 30.0
_LONGEST_BACKOFF = 300.0
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to announce.

    :param max_events: staged, make a batch worth announcing at once.
    :param max_wait: seconds after its first event until a batch is announced anyway.
    :param again_after: seconds until a batch that nobody works on is announced a second time; doubled each further time, up to 6 hours.
    """

    max_events: int = 100
    max_wait: float = 2.0
    again_after: float = 900.0

    def __post_init__(self) -> None:
        if type(self.max_events) is not int or not 1 <= self.max_events <= _MOST_EVENTS:
            raise ConfigurationError(
                f"max_events={self.max_events!r} cannot be used: give a whole number from 1 to {_MOST_EVENTS}."
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
    """What to do about the coming batch."""

    LISTEN = "nothing is known of it: subscribe"
    ANNOUNCE = "say that it is there"
    ANNOUNCE_IF_IDLE = "say that it is there, unless a run is queued or running"
    WAIT = "it is somebody's business: look again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is known of the coming batch.

    :param events: staged, or heard of.
    :param held: somebody who is alive is at work on it.
    :param own: this watcher has heard these events itself, just now.
    :param announced: the last announcement of this batch, by this watcher or one before it.
    :param known_for: seconds since this watcher first saw events of this batch, in nobody's hands.
    """

    events: int = 0
    held: bool = False
    own: bool = False
    announced: Announced | None = None
    known_for: float = 0.0


def next_step(scene: Scene, rules: Rules, now: datetime) -> Step:
    """What to do; `now` has a time zone."""
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


def again_after(rules: Rules, times: int) -> timedelta:
    """How long after the last of so many announcements the next one is due."""
    doubled = rules.again_after * 2 ** min(max(times - 1, 0), _MOST_DOUBLINGS)
    return min(timedelta(seconds=doubled), LONGEST_AGAIN)


def is_settled(announced: Announced, now: datetime) -> bool:
    """Whether Airflow has had time to store the announcement, so that it may be remembered."""
    return now - datetime.fromisoformat(announced.at) >= timedelta(seconds=SETTLE_SECONDS)


def pause(waited: float) -> float:
    """Seconds until the next look at a batch that is somebody's business for so long.

    A tenth of what it has taken so far: the batch after a quick run is seen at once, and a long run costs few looks.
    """
    return min(max(waited / 10, 1.0), _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What keeps a watcher from watching.

    :param kind: of error; its message may name a call, and differ each time.
    :param since: when it began.
    :param tried_at: when it last showed.
    :param tries: in vain, in a row.
    :param announced: times somebody was told; `announced_at` is the last.
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


def next_trouble(before: Trouble | None, error: Exception, now: datetime) -> Trouble:
    """The trouble that an error means, one try further where it is in a row with another."""
    message = str(error) or type(error).__name__
    first = before or Trouble(
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
    """Whether an error ended a wait that had gone on for long, and so is no continuation of the trouble before it."""
    return listens_since is not None and now - listens_since >= timedelta(seconds=RETRY_SECONDS)


def told(trouble: Trouble, now: datetime) -> Trouble:
    """The trouble, of which somebody knows now."""
    return replace(trouble, announced=trouble.announced + 1, announced_at=now)


def is_for_people(error: Exception) -> bool:
    """Whether somebody has to act; the rest passes by itself."""
    return isinstance(error, ConfigurationError | AuthenticationError | QuotaExceeded)


def is_due(trouble: Trouble, rules: Rules, now: datetime) -> bool:
    """Whether somebody is to be told now: at once of what people must mend, and of what does not pass after `again_after`."""
    if trouble.announced_at is not None:
        return now - trouble.announced_at >= again_after(rules, trouble.announced)
    return trouble.for_people or now - trouble.since >= timedelta(seconds=rules.again_after)


def is_worth_a_try(trouble: Trouble, rules: Rules, now: datetime, *, changed: bool) -> bool:
    """Whether to try again.

    :param changed: the connection, the position or the staged batch is not what it was.
    """
    if changed or not trouble.for_people or is_due(trouble, rules, now):
        return True
    return not trouble.login and now - trouble.tried_at >= timedelta(seconds=RETRY_SECONDS)


def trouble_pause(trouble: Trouble, spread: float) -> float:
    """Seconds until the next look.

    :param spread: random, from 0 to 1, so that a thousand watchers do not come back at once.
    """
    if trouble.for_people:
        return CONNECTION_SECONDS
    return backoff(trouble.tries, spread)


def backoff(tries: int, spread: float) -> float:
    """Seconds before the next try after so many in vain: doubled each time, up to five minutes.

    :param spread: as in `trouble_pause`.
    """
    longest = min(2.0 ** min(tries, _MOST_DOUBLINGS), _LONGEST_BACKOFF)
    return longest * (1 + spread) / 2
