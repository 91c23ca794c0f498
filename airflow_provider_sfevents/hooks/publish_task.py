"""Publish the events of a task: record accepted events in a ledger, and send only missing ones."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import EventsRefusedError, PublishInterruptedError
from airflow_provider_sfevents.pubsub.publishing import event_encoder
from airflow_provider_sfevents.pubsub.publishing.event_ids import derived_ids, run_namespace
from airflow_provider_sfevents.pubsub.publishing.event_publisher import (
    explain_interruption,
    send_all,
)
from airflow_provider_sfevents.staging.ledger_writer import LedgerWriter
from airflow_provider_sfevents.staging.publish_ledger import Accepted, PublishLedger, runs_folder

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
"""Refused events that a message names; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsToPublish:
    """Records that a task publishes as events.

    :param source: returns the records, from the first on, at each call.
    :param run: the publishing task; the ids of its events derive from it.
    :param root: of the staging area.
    :param id_field: see `Encoder`.
    """

    topic: str
    source: Callable[[], Iterator[GivenRecord]]
    run: Run
    root: UPath
    id_field: str = ""

    def ledger(self, org_id: str) -> PublishLedger:
        """Return the ledger of this task in this run, to be written by this try."""
        run = self.run
        return PublishLedger(
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
    """Counts of a task's events, over all its tries.

    The thread that makes the events counts those that earlier tries had published; the event loop
    counts those that this try publishes. Neither changes the other's fields.

    :param records: all records.
    :param published: events that this try has published.
    :param before: events that earlier tries had published.
    :param repeated: times that an event was sent again.
    :param refused: events that the service refused.
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
        """Count an event that an earlier try has published."""
        self.before += 1
        self.had_span.take(accepted)

    def note(self, results: list[PublishResult]) -> list[Accepted]:
        """Count the results of this try's events; returns the accepted ones."""
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
        """Return the counts for XCom, with the replay ids of the first and the last record.

        The size of the result does not depend on the number of events.
        """
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
        """Return the counts as a sentence for the log."""
        return (
            f"{self.published} of {counted(self.records, 'event')} published to {topic} by this "
            f"try, {self.before} by earlier ones; {self.refused} refused; an event was sent again "
            f"{counted(self.repeated, 'time')}."
        )

    def refuse(self, topic: str) -> None:
        """Fail if events were refused.

        :raises EventsRefusedError: the service refused events for good; the message names the first
            ones.
        """
        if not self.refused:
            return
        left = self.refused - len(self.named)
        lines = [
            f"{self.refused} of {counted(self.records, 'event')} refused by the service, each time "
            f"they were sent; the other {self.published + self.before} are published to {topic}. "
            "A retry of the task sends only these:",
            *self.named,
            *([f"and {left} more."] if left else []),
        ]
        raise EventsRefusedError("\n".join(lines))

    def _refuse(self, result: PublishResult) -> None:
        self.refused += 1
        if len(self.named) < SHOWN:
            said = result.error[:300]
            self.named.append(f"record {result.number} (event id {result.event_id}): {said}")


async def publish_records(
    client: PubSubClient, to_publish: RecordsToPublish, tally: Tally
) -> PublishLedger:
    """Check all records, publish those missing from the ledger, and note each accepted one.

    Blocking calls, of a store or on records, run beside the event loop.

    :param tally: is kept up to date, also if an error is raised.
    :return: the ledger.
    :raises ConfigurationError: records do not fit the topic's schema; nothing is sent.
    :raises SfEventsError: publishing ended early; the events accepted until then are in the ledger.
    """
    run, org_id = to_publish.run, (await client.session()).org_id
    of_run = run_namespace(org_id, to_publish.topic, run.dag, run.run, run.task, run.map_index)
    encoder = await client.publishing.encoder(
        to_publish.topic, identify=derived_ids(of_run), id_field=to_publish.id_field
    )
    tally.records = await asyncio.to_thread(event_encoder.check, encoder, to_publish.source())
    ledger = await asyncio.to_thread(to_publish.ledger, org_id)
    known = await asyncio.to_thread(ledger.known)
    missing = _missing(event_encoder.events(encoder, to_publish.source()), known, tally)
    publisher = client.publishing.publisher(encoder)
    try:
        async with (
            LedgerWriter(ledger.write) as writer,
            aclosing(send_all(publisher, missing, encoder.schema_id)) as answered,
        ):
            async for results in answered:
                await writer.note(tally.note(results))
    except PublishInterruptedError as error:
        raise explain_interruption(
            error,
            f"{tally.published + tally.before} events are published. A retry of the task sends "
            "the rest under the same ids.",
        ) from error
    finally:
        tally.repeated = publisher.repeated
        log.info("%s", tally.told(to_publish.topic))
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
