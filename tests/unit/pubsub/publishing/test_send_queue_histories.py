"""Send queue under random answers and losses: every event is settled once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from airflow_provider_sfevents.pubsub.publishing.event_encoder import OutgoingEvent
from airflow_provider_sfevents.pubsub.publishing.send_queue import (
    MAX_TRIES,
    PublishAnswer,
    SendQueue,
)

MOST = 3
HAPPENINGS = st.lists(
    st.sampled_from(["take", "give", "accept", "refuse", "twice", "lose", "miss", "later"]),
    max_size=60,
)


class History:
    """A service that answers as scripted, and the events that it has seen."""

    def __init__(self) -> None:
        self.outbox = SendQueue(max_requests=MOST)
        self.under_way: dict[str, OutgoingEvent] = {}
        self.settled: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.doubtful: set[str] = set()
        self.taken = 0
        self.now = 0.0

    def happen(self, what: str) -> None:
        match what:
            case "take" if self.outbox.takes_more:
                numbers = range(self.taken + 1, self.taken + 4)
                self.outbox.add(OutgoingEvent(number=n, id=str(n), payload=b"") for n in numbers)
                self.taken += 3
            case "give":
                for event in self.outbox.give(self.now) or ():
                    assert event.id not in self.under_way
                    assert event.id not in self.settled
                    self.under_way[event.id] = event
            case "accept" | "refuse" | "twice" if self.under_way:
                self._answer(max(self.under_way), what)
            case "lose" | "miss":
                self.doubtful |= set() if what == "miss" else self.under_way.keys()
                self.outbox.lost(took_nothing=what == "miss")
                self.under_way.clear()
            case "later":
                self.now += 1.0
            case _:
                pass
        assert self.outbox.unanswered == len(self.under_way)
        uncertain, unsent = self.outbox.uncertain, self.outbox.unsent
        assert set(uncertain.values()) == self.doubtful | self.under_way.keys()
        left = {n for n in range(1, self.taken + 1) if str(n) not in self.settled}
        assert (uncertain.keys() | unsent.keys(), uncertain.keys() & unsent.keys()) == (left, set())

    def _answer(self, event_id: str, how: str) -> None:
        del self.under_way[event_id]
        self.doubtful.discard(event_id)
        error = "not now" if how == "refuse" else ""
        self.refusals[event_id] += bool(error)
        answers = [PublishAnswer(event_id=event_id, error=error)] * (2 if how == "twice" else 1)
        results = self.outbox.answered(answers, self.now)
        final = not error or self.refusals[event_id] == MAX_TRIES
        assert [(one.event_id, one.error) for one in results] == [(event_id, error)] * final
        self.settled.update(one.event_id for one in results)


@given(HAPPENINGS)
def test_every_event_is_settled_once(happenings: list[str]) -> None:
    """Every event is settled once, and those that may be on the bus are always known."""
    history = History()
    for what in happenings:
        history.happen(what)
    while not history.outbox.is_done:
        for what in ("later", "give", *["accept"] * 9):
            history.happen(what)
    assert history.settled == Counter(str(number) for number in range(1, history.taken + 1))
