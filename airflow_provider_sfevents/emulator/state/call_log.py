"""Log of client activity: calls, streams and deliveries. Reading returns copies.

An emulator that runs for weeks drops the oldest calls and ended streams; its counts are complete.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.state import publish_allocation

if TYPE_CHECKING:
    from collections.abc import MutableSequence
    from datetime import datetime

MOST_CALLS, MOST_ENDED, MOST_REQUESTS = 100_000, 10_000, 10_000
_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One RPC or login request.

    :param metadata: names of its headers; never their values.
    :param client: consumer key of the session; empty if not authenticated.
    :param subject: topic or schema id of the call.
    """

    rpc: str
    at: datetime
    metadata: tuple[str, ...]
    org_id: str = ""
    client: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFetch:
    """One FetchRequest as received."""

    topic: str
    replay_preset: str
    replay_id: bytes
    num_requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCommit:
    """One CommitReplayRequest as received.

    :param error: reason of the failure; empty on success.
    """

    request_id: str
    replay_id: bytes
    error: str


@dataclass(slots=True, kw_only=True)
class RecordedSubscription:
    """One Subscribe or ManagedSubscribe stream.

    :param managed: developer name of the managed subscription; empty for Subscribe.
    :param requests: the newest `MOST_REQUESTS` requests; `commits` likewise.
    :param commits: includes failed commits.
    :param start: `earliest`, `latest` or the replay id in hex, from the first request or the
        committed replay id.
    :param max_outstanding: most events outstanding after a request, before the service limits them
        to 100.
    :param begun: the start position is resolved; later events are delivered.
    :param ended: gRPC status of the end; `CANCELLED` if the client went away; empty while open.
    """

    number: int
    topic: str
    org_id: str
    client: str
    username: str
    started_at: datetime
    start: str = ""
    requests: MutableSequence[RecordedFetch] = field(
        default_factory=lambda: deque(maxlen=MOST_REQUESTS)
    )
    delivered: int = 0
    responses: int = 0
    keepalives: int = 0
    max_outstanding: int = 0
    managed: str = ""
    commits: MutableSequence[RecordedCommit] = field(
        default_factory=lambda: deque(maxlen=MOST_REQUESTS)
    )
    begun: bool = False
    ended: str = ""

    @property
    def open(self) -> bool:
        return not self.ended


class CallLog:
    """The call log of one emulator. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[RecordedCall] = deque(maxlen=MOST_CALLS)
        self._subscriptions: list[RecordedSubscription] = []
        self._subscribed = 0
        self._open = 0
        self._delivered: Counter[tuple[str, str]] = Counter()
        self._recent: dict[str, deque[tuple[float, int]]] = {}
        self._in_a_day: Counter[str] = Counter()

    def call(self, call: RecordedCall) -> None:
        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()

    def subscribed(self, **facts: object) -> RecordedSubscription:
        with self._changed:
            self._subscribed += 1
            self._open += 1
            number = self._subscribed
            subscription = RecordedSubscription(number=number, **facts)  # type: ignore[arg-type]
            self._subscriptions.append(subscription)
            if len(self._subscriptions) - self._open >= 2 * MOST_ENDED:
                self._forget()
            self._changed.notify_all()
            return subscription

    def began(self, subscription: RecordedSubscription) -> None:
        """Record that a stream has resolved its start position."""
        with self._changed:
            subscription.begun = True
            self._changed.notify_all()

    def asked(self, subscription: RecordedSubscription, fetch: RecordedFetch, pending: int) -> None:
        """Record a request of a stream that had `pending` events outstanding."""
        with self._changed:
            subscription.requests.append(fetch)
            subscription.max_outstanding = max(
                subscription.max_outstanding, pending + fetch.num_requested
            )
            self._changed.notify_all()

    def delivered(self, subscription: RecordedSubscription, events: int, at: float) -> None:
        """Record a response; without events it is a keepalive."""
        with self._changed:
            subscription.responses += 1
            subscription.delivered += events
            subscription.keepalives += events == 0
            if events:
                self._delivered[subscription.org_id, subscription.topic] += events
                if publish_allocation.counts(subscription.topic):
                    self._remember(subscription.org_id, events, at)
            self._changed.notify_all()

    def committed(self, subscription: RecordedSubscription, commit: RecordedCommit) -> None:
        with self._changed:
            subscription.commits.append(commit)
            self._changed.notify_all()

    def answered(self, subscription: RecordedSubscription) -> None:
        """Record a response that answers commits only."""
        with self._changed:
            subscription.responses += 1
            self._changed.notify_all()

    def _remember(self, org_id: str, events: int, at: float) -> None:
        """Add deliveries to the daily allocation, grouped by second."""
        recent = self._recent_day(org_id, at)
        before = recent.pop() if recent and at - recent[-1][0] < 1 else (at, 0)
        recent.append((before[0], before[1] + events))
        self._in_a_day[org_id] += events

    def ended(self, subscription: RecordedSubscription, status: str) -> None:
        with self._changed:
            self._open -= subscription.open
            subscription.ended = subscription.ended or status
            self._changed.notify_all()

    def delivered_in_a_day(self, org_id: str, now: float) -> int:
        """Events delivered to all subscribers in the last 24 hours, for the allocation."""
        with self._changed:
            self._recent_day(org_id, now)
            return self._in_a_day[org_id]

    def _recent_day(self, org_id: str, now: float) -> deque[tuple[float, int]]:
        """Deliveries of the last 24 hours by second; older ones are dropped."""
        recent = self._recent.setdefault(org_id, deque())
        while recent and recent[0][0] <= now - _DAY:
            self._in_a_day[org_id] -= recent.popleft()[1]
        return recent

    def deliveries(self, org_id: str, topic: str | None = None) -> int:
        with self._changed:
            return sum(
                n
                for (org, name), n in self._delivered.items()
                if org == org_id and topic in {None, name}
            )

    def calls(self) -> tuple[RecordedCall, ...]:
        with self._changed:
            return tuple(self._calls)

    def subscriptions(self) -> tuple[RecordedSubscription, ...]:
        with self._changed:
            return tuple(
                replace(one, requests=list(one.requests), commits=list(one.commits))
                for one in self._subscriptions
            )

    def open_streams(self) -> int:
        with self._changed:
            return self._open

    def wait_open_streams(self, count: int, timeout: float) -> bool:
        """Wait until exactly `count` streams are open and started; False on timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: (
                    self._open == count
                    and all(one.begun for one in self._subscriptions if one.open)
                ),
                timeout,
            )

    def _forget(self) -> None:
        """Drop all but the open streams and the newest ended ones."""
        ended = [one for one in self._subscriptions if not one.open]
        gone = {one.number for one in ended[:-MOST_ENDED]}
        self._subscriptions = [one for one in self._subscriptions if one.number not in gone]
