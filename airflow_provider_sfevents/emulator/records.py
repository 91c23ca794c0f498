"""What clients did: every call, every stream, every delivery. Reading hands out copies, never the live records.

An emulator that runs for weeks forgets the oldest calls and ended streams; what it counts it counts for ever.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import allocations

if TYPE_CHECKING:
    from collections.abc import MutableSequence
    from datetime import datetime

MOST_CALLS, MOST_ENDED, MOST_REQUESTS = 100_000, 10_000, 10_000
_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One RPC or login request.

    :param metadata: names of the headers it came with; never their values.
    :param client: consumer key it was authenticated with; empty where it was not.
    :param subject: the topic or schema id it was about.
    """

    rpc: str
    at: datetime
    metadata: tuple[str, ...]
    org_id: str = ""
    client: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One FetchRequest as it came in."""

    topic: str
    replay_preset: str
    replay_id: bytes
    num_requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One CommitReplayRequest as it came in.

    :param error: why it failed; empty when it did not.
    """

    request_id: str
    replay_id: bytes
    error: str


@dataclass(slots=True, kw_only=True)
class Subscription:
    """One Subscribe or ManagedSubscribe stream.

    :param managed: developer name of the managed subscription; empty for Subscribe.
    :param requests: the newest; `MOST_REQUESTS` of them, and so for `commits`.
    :param commits: also those that failed.
    :param start: `earliest`, `latest` or the replay id in hex, from its first request or from what was committed.
    :param max_outstanding: most events outstanding once a request was added, before the service clamps them to 100.
    :param begun: its place is found; what is published from then on is delivered.
    :param ended: how the server saw it end: a gRPC status, `CANCELLED` for a client that went away; empty while open.
    """

    number: int
    topic: str
    org_id: str
    client: str
    username: str
    started_at: datetime
    start: str = ""
    requests: MutableSequence[Fetch] = field(default_factory=lambda: deque(maxlen=MOST_REQUESTS))
    delivered: int = 0
    responses: int = 0
    keepalives: int = 0
    max_outstanding: int = 0
    managed: str = ""
    commits: MutableSequence[Commit] = field(default_factory=lambda: deque(maxlen=MOST_REQUESTS))
    begun: bool = False
    ended: str = ""

    @property
    def open(self) -> bool:
        return not self.ended


class Records:
    """The book of one emulator. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[Call] = deque(maxlen=MOST_CALLS)
        self._subscriptions: list[Subscription] = []
        self._subscribed = 0
        self._open = 0
        self._delivered: Counter[tuple[str, str]] = Counter()
        self._recent: dict[str, deque[tuple[float, int]]] = {}
        self._in_a_day: Counter[str] = Counter()

    def call(self, call: Call) -> None:
        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()

    def subscribed(self, **facts: object) -> Subscription:
        with self._changed:
            self._subscribed += 1
            self._open += 1
            subscription = Subscription(number=self._subscribed, **facts)  # type: ignore[arg-type]
            self._subscriptions.append(subscription)
            if len(self._subscriptions) - self._open >= 2 * MOST_ENDED:
                self._forget()
            self._changed.notify_all()
            return subscription

    def began(self, subscription: Subscription) -> None:
        """Stream found its place."""
        with self._changed:
            subscription.begun = True
            self._changed.notify_all()

    def asked(self, subscription: Subscription, fetch: Fetch, pending: int) -> None:
        """Request came to a stream that had so many events outstanding."""
        with self._changed:
            subscription.requests.append(fetch)
            subscription.max_outstanding = max(
                subscription.max_outstanding, pending + fetch.num_requested
            )
            self._changed.notify_all()

    def delivered(self, subscription: Subscription, events: int, at: float) -> None:
        """Response was sent; without events it was a keepalive."""
        with self._changed:
            subscription.responses += 1
            subscription.delivered += events
            subscription.keepalives += events == 0
            if events:
                self._delivered[subscription.org_id, subscription.topic] += events
                if allocations.counts(subscription.topic):
                    self._remember(subscription.org_id, events, at)
            self._changed.notify_all()

    def committed(self, subscription: Subscription, commit: Commit) -> None:
        with self._changed:
            subscription.commits.append(commit)
            self._changed.notify_all()

    def answered(self, subscription: Subscription) -> None:
        """Response was sent that is about commits alone."""
        with self._changed:
            subscription.responses += 1
            self._changed.notify_all()

    def _remember(self, org_id: str, events: int, at: float) -> None:
        """Note deliveries for the allocation, by the second."""
        recent = self._recent.setdefault(org_id, deque())
        before = recent.pop() if recent and at - recent[-1][0] < 1 else (at, 0)
        recent.append((before[0], before[1] + events))
        self._in_a_day[org_id] += events

    def ended(self, subscription: Subscription, status: str) -> None:
        with self._changed:
            self._open -= subscription.open
            subscription.ended = subscription.ended or status
            self._changed.notify_all()

    def delivered_in_a_day(self, org_id: str, now: float) -> int:
        """Events delivered in the 24 hours before, all subscribers together: what the allocation counts."""
        with self._changed:
            recent = self._recent.get(org_id, deque())
            while recent and recent[0][0] <= now - _DAY:
                self._in_a_day[org_id] -= recent.popleft()[1]
            return self._in_a_day[org_id]

    def deliveries(self, org_id: str, topic: str | None = None) -> int:
        with self._changed:
            return sum(
                n
                for (org, name), n in self._delivered.items()
                if org == org_id and topic in {None, name}
            )

    def calls(self) -> tuple[Call, ...]:
        with self._changed:
            return tuple(self._calls)

    def subscriptions(self) -> tuple[Subscription, ...]:
        with self._changed:
            return tuple(
                replace(one, requests=list(one.requests), commits=list(one.commits))
                for one in self._subscriptions
            )

    def open_streams(self) -> int:
        with self._changed:
            return self._open

    def wait_open_streams(self, count: int, timeout: float) -> bool:
        """Wait until exactly so many streams are open and have begun; whether that came true."""
        with self._changed:
            return self._changed.wait_for(
                lambda: (
                    self._open == count
                    and all(one.begun for one in self._subscriptions if one.open)
                ),
                timeout,
            )

    def _forget(self) -> None:
        """Keep what is open, and the newest of what has ended."""
        ended = [one for one in self._subscriptions if not one.open]
        gone = {one.number for one in ended[:-MOST_ENDED]}
        self._subscriptions = [one for one in self._subscriptions if one.number not in gone]
