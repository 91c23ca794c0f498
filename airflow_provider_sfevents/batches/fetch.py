"""One fetch: from the bus into closed files, and the manifest last of all."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.coming import Coming
from airflow_provider_sfevents.batches.opening import write_origin
from airflow_provider_sfevents.batches.schemas import keep_schemas
from airflow_provider_sfevents.batches.supply import Supply, supplied
from airflow_provider_sfevents.exceptions import (
    ReplayIdRefused,
    SfEventsError,
    Stopped,
    TransportError,
)
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.pubsub.event_time import event_time_reader
from airflow_provider_sfevents.pubsub.start import EARLIEST
from airflow_provider_sfevents.staging import excess
from airflow_provider_sfevents.staging.chain import LATEST
from airflow_provider_sfevents.staging.manifest import LossWindow, Manifest, Part
from airflow_provider_sfevents.staging.marks import Anchor

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.restart import Fetch
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.delivery import Delivery
    from airflow_provider_sfevents.pubsub.fetch import FetchResult
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.claims import Claim
    from airflow_provider_sfevents.staging.writer import PartWriter

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 10.0
"""How often a long fetch says how far it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a fetch ended.

    :param latest_replay_id: of the last event or keepalive, hex; empty when nothing came.
    """

    ended_by: str
    latest_replay_id: str = ""
    last_event_at: str = ""
    error: str = ""


def announcement(topic: str, plan: Fetch, bounds: Bounds) -> str:
    """What the log says before the first event: from where, and how long it may be silent now."""
    where = f"from {plan.ask}" if plan.ask in (EARLIEST, LATEST) else f"after {plan.ask}"
    first = f" ({bounds.learn_seconds:g} s for the first)" if bounds.learn_seconds else ""
    staged = f"; {plan.events} staged already" if plan.kept else ""
    return (
        f"Fetching {topic} {where}, until nothing comes for {bounds.idle_seconds:g} s{first}, "
        f"{bounds.max_events:,} events or {bounds.max_seconds:g} s at most{staged}."
    )


class BatchFetch:
    """Fetches one batch into its folder; the claim is the caller's.

    :param bounds: of the batch, what earlier attempts have kept included.
    :param plan: where to start and which files of earlier attempts to keep.
    """

    def __init__(
        self,
        request: BatchRequest,
        bounds: Bounds,
        position: Position,
        plan: Fetch,
        topic_folder: TopicFolder,
        folder: BatchFolder,
        claim: Claim,
    ) -> None:
        self._request = request
        self._bounds = bounds
        self._position = position
        self._plan = plan
        self._topic_folder = topic_folder
        self._folder = folder
        self._claim = claim
        self._schemas = folder.schemas()  # and those that were asked for in vain
        self._received = plan.events
        self._first: Delivery | None = None
        self._unasked = 0
        self._reported_at = time.monotonic()

    async def run(self, client: PubSubClient, stopping: asyncio.Event) -> Manifest | Ended:
        """The manifest of the staged batch; or how the fetch ended, when no event came.

        :raises Stopped: `stopping` was set; what has been received is kept.
        """
        topic, plan = self._request.topic, self._plan
        log.info("%s", announcement(topic, plan, self._bounds))
        coming = Coming.after(self._position, self._request.managed)
        async with supplied(client, coming, self._topic_folder) as supply:
            staged = await self._stage(client, supply, stopping)
            if isinstance(staged, Manifest):
                await supply.keep(staged.end)
        return staged

    async def _stage(
        self, client: PubSubClient, supply: Supply, stopping: asyncio.Event
    ) -> Manifest | Ended:
        topic, plan = self._request.topic, self._plan
        async with self._folder.writer(self._claim, plan.resume, plan.events) as writer:
            ended = await self._fetch(client, supply, writer, stopping)
        parts = (*plan.kept, *await writer.close())
        if ended.ended_by == "stopped":
            events = sum(part.events for part in parts)
            raise Stopped(
                f"The task was ended while it fetched {topic}; {events} events stay staged for the next try."
            )
        if not parts:
            self._write_anchor(ended)
            return ended
        missing = {schema for part in parts for schema in part.schemas} - self._schemas
        await keep_schemas(self._folder, client, missing)
        return self._write_manifest(parts, ended, await self._losses(client), supply.repeated())

    async def _fetch(
        self, client: PubSubClient, supply: Supply, writer: PartWriter, stopping: asyncio.Event
    ) -> Ended:
        async def receive(delivery: Delivery) -> None:
            steps.reached(steps.DELIVERED, self._folder.batch_id)
            if self._first is None and self._plan.ask == LATEST:
                # Whoever takes us for dead asks later. So while the batch is ours, no other `latest` has missed less.
                self._claim.check()
            await hand_over(delivery, writer)
            self._report(len(delivery))
            if self._first is None:
                self._first = delivery
                await self._keep_place(supply, writer)
            if missing := set(delivery.schema_ids) - self._schemas:
                await keep_schemas(self._folder, client, missing)
                self._schemas |= missing

        try:
            result = await supply.fetch(self._plan, self._bounds, receive, stop=stopping)
        except TransportError:
            raise  # it passes; the next try goes on where this one was
        except SfEventsError as error:
            anchor_is_refused = self._plan.anchor and isinstance(error, ReplayIdRefused)
            if not self._plan.kept or anchor_is_refused:
                raise
            # What earlier attempts have paid for lands before the error is everybody's.
            return Ended(ended_by="error", error=str(error))
        self._unasked = result.unasked
        return _ended(result)

    async def _keep_place(self, supply: Supply, writer: PartWriter) -> None:
        """Salesforce, where it keeps the place, has none yet when it started at `latest`; a restart would begin at a later one."""
        if self._plan.ask == LATEST and self._request.managed:
            await supply.keep(await writer.sealed())

    async def _losses(self, client: PubSubClient) -> tuple[LossWindow, ...]:
        """The loss window this batch begins with, and where reading goes on after it, as far as this attempt has seen."""
        loss, first = self._plan.loss, self._first
        if loss is None:
            return ()
        if first is None or self._plan.kept:
            return (loss,)
        try:
            read = event_time_reader(await client.get_schema(first.schema_ids[0]))
        except SfEventsError:
            return (loss,)  # good to know, not worth failing a fetched batch for
        created = read(first.payloads[0])
        return (replace(loss, first_event_at=created.isoformat() if created else ""),)

    def _report(self, events: int) -> None:
        self._received += events
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_SECONDS:
            self._reported_at = now
            log.info("%d of at most %d events received.", self._received, self._bounds.max_events)

    def _write_anchor(self, ended: Ended) -> None:
        """A quiet topic's position does not get old: the next fetch starts at the last keepalive.

        Only ever while the batch is empty, since an anchor passes whatever came before it.
        """
        if not ended.latest_replay_id:
            return
        self._claim.check()
        self._topic_folder.write_anchor(
            Anchor(
                epoch=self._position.epoch,
                sequence=self._position.sequence,
                replay_id=ended.latest_replay_id,
                seen_at=datetime.now(UTC).isoformat(),
            )
        )

    def _write_manifest(
        self,
        parts: tuple[Part, ...],
        ended: Ended,
        losses: tuple[LossWindow, ...],
        repeated: Mapping[str, int],
    ) -> Manifest:
        position, folder = self._position, self._folder
        manifest = Manifest(
            org_id=position.org_id,
            instance_url=position.instance_url,
            topic=position.topic,
            consumer=position.consumer,
            epoch=position.epoch,
            sequence=position.sequence + 1,
            batch_id=folder.batch_id,
            position_start=position.start,
            start=self._plan.start,
            end=parts[-1].end,
            events=sum(part.events for part in parts),
            bytes=sum(part.bytes for part in parts),
            ended_by=ended.ended_by,
            parts=parts,
            schemas=tuple(sorted({schema for part in parts for schema in part.schemas})),
            created_at=datetime.now(UTC).isoformat(),
            run=self._request.run,
            error=ended.error,
            last_event_at=ended.last_event_at,
            overlaps=bool(losses) or record.overlaps(position),
            losses=losses,
            excess=excess.sums(
                folder.read_excess(),
                excess.of_attempts(folder.attempts_before(self._claim), parts),
                repeated,
                {excess.UNASKED: self._unasked},
            ),
        )
        if position.sequence == 0:
            write_origin(self._topic_folder, position)  # a position written by hand has none yet
        self._claim.check()
        steps.reached(steps.MANIFEST_NEXT, manifest.batch_id)
        created = folder.create_manifest(manifest)
        steps.reached(steps.MANIFEST_WRITTEN, manifest.batch_id)
        return created


async def hand_over(delivery: Delivery, writer: PartWriter) -> None:
    """:raises StagingError: what came before could not be written; nothing more will be."""
    await writer.append(
        delivery.ids,
        delivery.replay_ids,
        delivery.schema_ids,
        delivery.payloads,
        delivery.received_at,
    )


def _ended(result: FetchResult) -> Ended:
    return Ended(
        ended_by=result.ended_by,
        latest_replay_id=result.latest_replay_id.hex(),
        last_event_at=result.last_event_at.isoformat() if result.last_event_at else "",
        error=str(result.error) if result.error else "",
    )
