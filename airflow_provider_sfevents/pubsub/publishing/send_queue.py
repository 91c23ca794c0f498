"""Queue of events between "to be sent" and "answered": requests, answers, repetitions. Pure.

Rule 1. No more requests are unanswered than allowed. No more is taken from the source while so many
        are under way or wait.
Rule 2. Answers are matched by event id, in any order.
Rule 3. An event that is unanswered when its transport ends is sent again, before all others and
        under the same id, because the service may have accepted it. Until it is answered it is in
        doubt, unless the service certainly did not take it.
Rule 4. An event that was refused is sent again, a bounded number of times; then it is refused for
        good. Salesforce publishes no list of the reasons, so only a used-up allowance is final;
        nothing more is sent after it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.pubsub.publishing.event_encoder import OutgoingEvent

MAX_REQUESTS = 4
"""Requests under way on a stream: enough for a round trip; at most 12 MB to send again."""
MAX_TRIES = 3
"""Tries of an event that the service refuses."""
FIRST_WAIT_SECONDS = 0.5
"""Pause before a refused event is sent again; it doubles each time."""
MAX_LOSSES = 7
"""Ended streams that an event may be under way on before it is blamed for their end."""

# Name of the used-up hourly allowance in the REST API and the Pub/Sub API (Platform Events guide,
# allocations).
_LIMIT = "LIMIT_EXCEEDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAnswer:
    """The service's answer for one event. :param error: empty if it was accepted."""

    event_id: str
    replay_id: bytes = b""
    error: str = ""


class PublishVerdict(Enum):
    """Meaning of an answer for its event."""

    ACCEPTED = "accepted"
    AGAIN = "goes again"
    REFUSED = "refused for good"
    LIMIT = "an allowance is used up"


def is_limit(said: str) -> bool:
    """True if the service says that the allowance of published events is used up."""
    return _LIMIT in said.upper()


def judge(error: str, tries: int, max_tries: int = MAX_TRIES) -> PublishVerdict:
    """Decide what an answer means for its event.

    :param error: of the answer.
    :param tries: answers to the event so far, this one included.
    """
    if not error:
        return PublishVerdict.ACCEPTED
    if is_limit(error):
        return PublishVerdict.LIMIT
    return PublishVerdict.AGAIN if tries < max_tries else PublishVerdict.REFUSED


@dataclass(slots=True)
class _Waiting:
    events: list[OutgoingEvent]
    due_at: float = 0.0


class SendQueue:
    """Takes requests in, returns them when they are due, and reports the result of each event.

    `limit` is the service's text about a used-up allowance; from then on no request is due.
    """

    def __init__(
        self,
        *,
        max_requests: int = MAX_REQUESTS,
        max_tries: int = MAX_TRIES,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
    ) -> None:
        self._max_requests = max_requests
        self._max_tries = max_tries
        self._first_wait_seconds = first_wait_seconds
        self._waiting: deque[_Waiting] = deque()
        self._under_way: dict[int, dict[str, OutgoingEvent]] = {}
        self._request_of: dict[str, int] = {}
        self._requests = 0
        self._tries: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._in_doubt: dict[str, int] = {}
        self.repeated = 0
        self.limit = ""

    @property
    def takes_more(self) -> bool:
        return not self.limit and len(self._waiting) + len(self._under_way) < self._max_requests

    @property
    def unanswered(self) -> int:
        """Number of events under way."""
        return len(self._request_of)

    @property
    def is_done(self) -> bool:
        """True if nothing is under way, and nothing will be until more is added."""
        return not self._under_way and (not self._waiting or bool(self.limit))

    @property
    def due_at(self) -> float | None:
        """Time when the next request is due, if there is one."""
        if self.limit or len(self._under_way) >= self._max_requests:
            return None
        return min((one.due_at for one in self._waiting), default=None)

    @property
    def uncertain(self) -> dict[int, str]:
        """Ids of the events that may be on the bus without an answer, by record number."""
        sent = [event for one in self._under_way.values() for event in one.values()]
        sure = {event.number: event.id for event in sent}
        return {**{number: key for key, number in self._in_doubt.items()}, **sure}

    @property
    def unsent(self) -> dict[int, str]:
        """Ids of the other events without an answer, by record number."""
        waiting = [event for one in self._waiting for event in one.events]
        return {one.number: one.id for one in waiting if one.id not in self._in_doubt}

    def add(self, events: Iterable[OutgoingEvent]) -> None:
        """Add one request behind those that wait."""
        self._waiting.append(_Waiting(list(events)))

    def give(self, now: float) -> list[OutgoingEvent] | None:
        """The next request that is due; from here on it is under way."""
        due_at = self.due_at
        if due_at is None or due_at > now:
            return None
        at = next(at for at, one in enumerate(self._waiting) if one.due_at <= now)
        events = self._waiting[at].events
        del self._waiting[at]
        self._requests += 1
        self._under_way[self._requests] = {event.id: event for event in events}
        self._request_of.update((event.id, self._requests) for event in events)
        return events

    def answered(self, answers: Iterable[PublishAnswer], now: float) -> list[PublishResult]:
        """Results that these answers settle.

        Events that are sent again are not settled, nor are those that a used-up allowance keeps
        back.

        An answer to an event that is not under way, such as a second one, is left out.
        """
        settled, again = [], []
        for answer in answers:
            event = self._taken(answer.event_id)
            if event is None:
                continue
            self._tries[event.id] += 1
            self._in_doubt.pop(event.id, None)
            verdict = judge(answer.error, self._tries[event.id], self._max_tries)
            if verdict is PublishVerdict.AGAIN:
                again.append(event)
                continue
            if verdict is PublishVerdict.LIMIT:
                self.limit = answer.error
                continue
            del self._tries[event.id]
            self._losses.pop(event.id, None)
            settled.append(_result(event, answer))
        if again:
            self._repeat(again, now)
        return settled

    def lost(self, *, took_nothing: bool = False) -> int:
        """Put the events under way back in front, in their order: their transport has ended.

        :param took_nothing: the service certainly took none of them.
        :returns: the highest number of ended transports that one of these events was under way on.
        """
        events = [list(one.values()) for one in self._under_way.values()]
        if not took_nothing:
            self._in_doubt.update((event.id, event.number) for one in events for event in one)
        self._waiting.extendleft(_Waiting(one) for one in reversed(events))
        self._under_way.clear()
        self._request_of.clear()
        ids = [event.id for one in events for event in one]
        self._losses.update(ids)
        self.repeated += len(ids)
        return max((self._losses[one] for one in ids), default=0)

    def _taken(self, event_id: str) -> OutgoingEvent | None:
        request = self._request_of.pop(event_id, None)
        if request is None:
            return None
        events = self._under_way[request]
        event = events.pop(event_id)
        if not events:
            del self._under_way[request]
        return event

    def _repeat(self, events: list[OutgoingEvent], now: float) -> None:
        tries = max(self._tries[event.id] for event in events)
        due_at = now + self._first_wait_seconds * 2 ** (tries - 1)
        self._waiting.append(_Waiting(events, due_at))
        self.repeated += len(events)


def _result(event: OutgoingEvent, answer: PublishAnswer) -> PublishResult:
    return PublishResult(
        event_id=event.id, replay_id=answer.replay_id, error=answer.error, number=event.number
    )
