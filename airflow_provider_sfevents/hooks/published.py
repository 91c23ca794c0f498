"""Publishing as a task does it: what is accepted goes to a ledger, what a ledger has is not sent again, and the end is told in a few figures."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import EventsRefused
from airflow_provider_sfevents.pubsub.publish_stream import send_all
from airflow_provider_sfevents.staging.published import Accepted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.pubsub.publish_stream import Publisher
    from airflow_provider_sfevents.pubsub.publishing import Outgoing, PublishResult
    from airflow_provider_sfevents.staging.published import Ledger


SHOWN = 10
"""Refused events that a message names; the rest is counted."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has become of the events of a task, in all its tries.

    :param before: events that earlier tries had published.
    """

    records: int = 0
    published: int = 0
    before: int = 0
    repeated: int = 0
    refused: int = 0
    named: list[str] = field(default_factory=list)
    first: tuple[int, str] | None = None
    last: tuple[int, str] | None = None

    def had(self, accepted: Accepted) -> None:
        """An event that an earlier try has published."""
        self.before += 1
        self._span(accepted)

    def note(self, results: list[PublishResult]) -> list[Accepted]:
        """The answers to events of this try; those that were accepted."""
        accepted = [
            Accepted(record=one.number, id=one.event_id, replay_id=one.replay_id.hex())
            for one in results
            if not one.error
        ]
        for one in accepted:
            self._span(one)
        self.published += len(accepted)
        for result in results:
            if result.error:
                self._refuse(result)
        return accepted

    def result(self, topic: str, ledger_url: str) -> dict[str, Any]:
        """For XCom: a few figures, however many events there were. Replay ids are those of the first and the last record."""
        return {
            "topic": topic,
            "records": self.records,
            "published": self.published,
            "before": self.before,
            "repeated": self.repeated,
            "failed": self.refused,
            "first_replay_id": self.first[1] if self.first else "",
            "last_replay_id": self.last[1] if self.last else "",
            "ledger": ledger_url if self.published or self.before else "",
        }

    def refuse(self, topic: str) -> None:
        """:raises EventsRefused: should any event have been refused for good."""
        if not self.refused:
            return
        left = self.refused - len(self.named)
        lines = [
            f"{self.refused} of {self.records} events were refused by the service, each time they were sent; the other "
            f"{self.published + self.before} are published to {topic}. Trying the task again sends these alone:",
            *self.named,
            *([f"and {left} more."] if left else []),
        ]
        raise EventsRefused("\n".join(lines))

    def _refuse(self, result: PublishResult) -> None:
        self.refused += 1
        if len(self.named) < SHOWN:
            said = result.error[:300]
            self.named.append(f"record {result.number} (event id {result.event_id}): {said}")

    def _span(self, accepted: Accepted) -> None:
        at = (accepted.record, accepted.replay_id)
        self.first = at if self.first is None else min(self.first, at, key=_record)
        self.last = at if self.last is None else max(self.last, at, key=_record)


def _record(at: tuple[int, str]) -> int:
    return at[0]


async def publish_missing(
    publisher: Publisher,
    outgoing: Iterator[Outgoing],
    schema_id: str,
    ledger: Ledger,
    tally: Tally,
    monotonic: Callable[[], float],
) -> None:
    """Publishes the events that the ledger has not, and notes each one as it is accepted.

    :raises SfEventsError: what ends it early; what was accepted until then is in the ledger.
    """
    known = {accepted.id: accepted for accepted in ledger.read()}
    try:
        async with aclosing(
            send_all(publisher, _missing(outgoing, known, tally), schema_id)
        ) as answered:
            async for results in answered:
                ledger.add(tally.note(results), monotonic())
    finally:
        tally.repeated = publisher.repeated
        ledger.write()


def _missing(
    outgoing: Iterator[Outgoing], known: dict[str, Accepted], tally: Tally
) -> Iterator[Outgoing]:
    for event in outgoing:
        before = known.get(event.id)
        if before is None:
            yield event
        else:
            tally.had(before)
