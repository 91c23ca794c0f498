"""Publishing as a task does it: what is accepted goes to a ledger, what a ledger has is not sent again, and the end is told in a few figures."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import EventsRefused, PublishInterrupted
from airflow_provider_sfevents.pubsub.publishing import event_encoder
from airflow_provider_sfevents.pubsub.publishing.event_ids import derived_ids, run_namespace
from airflow_provider_sfevents.pubsub.publishing.event_publisher import (
    explain_interruption,
    send_all,
)
from airflow_provider_sfevents.staging.noting import Noting
from airflow_provider_sfevents.staging.published import Accepted, Ledger, runs_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from upath import UPath

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import (
        GivenRecord,
        OutgoingEvent,
        PublishResult,
    )
    from airflow_provider_sfevents.staging.manifest import Run

log = logging.getLogger(__name__)

SHOWN = 10
"""Refused events that a message names; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a task is to publish.

    :param source: gives the records from the first on, each time it is called. :param run: whose it is; its events' ids follow from it.
    :param root: of the staging area. :param id_field: see `Encoder`.
    """

    topic: str
    source: Callable[[], Iterator[GivenRecord]]
    run: Run
    root: UPath
    id_field: str = ""

    def ledger(self, org_id: str) -> Ledger:
        """Of this task in this run, to be written by this try."""
        run = self.run
        return Ledger(
            runs_folder(self.root, org_id, self.topic, f"{run.dag}.{run.task}"),
            run=run.run,
            map_index=run.map_index,
            writer=f"{run.try_number:03}-{secrets.token_hex(4)}",
            now=datetime.now(UTC),
        )


@dataclass(slots=True)
class Span:
    """The first and the last of some records, with their replay ids."""

    ends: tuple[tuple[int, str], ...] = ()

    def take(self, accepted: Accepted) -> None:
        at = (accepted.record, accepted.replay_id)
        self.ends = min((at, *self.ends)), max((at, *self.ends))


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has become of the events of a task, in all its tries.

    What earlier tries had published is told by the thread that makes the events, what this one publishes by the event loop; neither
    touches the other's fields.

    :param before: events that earlier tries had published.
    """

    records: int = 0
    published: int = 0
    before: int = 0
    repeated: int = 0
    refused: int = 0
    named: list[str] = field(default_factory=list)
    had_span: Span = field(default_factory=Span)
    span: Span = field(default_factory=Span)

    def had(self, accepted: Accepted) -> None:
        """An event that an earlier try has published."""
        self.before += 1
        self.had_span.take(accepted)

    def note(self, results: list[PublishResult]) -> list[Accepted]:
        """The answers to events of this try; those that were accepted."""
        accepted = [
            Accepted(record=one.number, id=one.event_id, replay_id=one.replay_id.hex())
            for one in results
            if not one.error
        ]
        for one in accepted:
            self.span.take(one)
        self.published += len(accepted)
        for result in results:
            if result.error:
                self._refuse(result)
        return accepted

    def result(self, topic: str, ledger_url: str) -> dict[str, Any]:
        """For XCom: a few figures, however many events there were. Replay ids are those of the first and the last record."""
        ends = sorted(self.had_span.ends + self.span.ends)
        return {
            "topic": topic,
            "records": self.records,
            "published": self.published,
            "before": self.before,
            "repeated": self.repeated,
            "failed": self.refused,
            "first_replay_id": ends[0][1] if ends else "",
            "last_replay_id": ends[-1][1] if ends else "",
            "ledger": ledger_url if self.published or self.before else "",
        }

    def told(self, topic: str) -> str:
        """For the log."""
        return (
            f"{self.published} of {counted(self.records, 'event')} published to {topic} by this try, {self.before} by earlier ones; {self.refused} "
            f"refused; an event was sent again {counted(self.repeated, 'time')}."
        )

    def refuse(self, topic: str) -> None:
        """:raises EventsRefused: should any event have been refused for good."""
        if not self.refused:
            return
        left = self.refused - len(self.named)
        lines = [
            f"{self.refused} of {counted(self.records, 'event')} refused by the service, each time they were sent; the other "
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


async def publish_wanted(client: PubSubClient, wanted: Wanted, tally: Tally) -> Ledger:
    """Checks all records, then publishes those that the ledger has not, and notes each one as it is accepted.

    What blocks, be it a store or the work on records, does so beside the event loop.

    :param tally: is kept up to date, however this ends.
    :raises ConfigurationError: records that do not fit; nothing is sent. :raises SfEventsError: what ends it early; what was accepted
        until then is in the ledger.
    """
    run, org_id = wanted.run, (await client.session()).org_id
    of_run = run_namespace(org_id, wanted.topic, run.dag, run.run, run.task, run.map_index)
    encoder = await client.publishing.encoder(
        wanted.topic, identify=derived_ids(of_run), id_field=wanted.id_field
    )
    tally.records = await asyncio.to_thread(event_encoder.check, encoder, wanted.source())
    ledger = await asyncio.to_thread(wanted.ledger, org_id)
    known = await asyncio.to_thread(ledger.known)
    missing = _missing(event_encoder.events(encoder, wanted.source()), known, tally)
    publisher = client.publishing.publisher(encoder)
    try:
        async with (
            Noting(ledger.write) as noting,
            aclosing(send_all(publisher, missing, encoder.schema_id)) as answered,
        ):
            async for results in answered:
                await noting.note(tally.note(results))
    except PublishInterrupted as error:
        raise explain_interruption(
            error,
            f"{tally.published + tally.before} events are published. Trying the task again sends "
            "the rest under the same ids.",
        ) from error
    finally:
        tally.repeated = publisher.repeated
        log.info("%s", tally.told(wanted.topic))
    return ledger


def _missing(
    outgoing: Iterator[OutgoingEvent], known: Mapping[str, Accepted], tally: Tally
) -> Iterator[OutgoingEvent]:
    for event in outgoing:
        before = known.get(event.id)
        if before is None:
            yield event
        else:
            tally.had(before)
