"""Fetch of one batch: from the bus into closed files, and the manifest last."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.carry_over import carry_over, staged_deliveries
from airflow_provider_sfevents.batches.event_schemas import EventSchemas
from airflow_provider_sfevents.batches.event_source import EventSource, open_source
from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.outage_retry import outlast
from airflow_provider_sfevents.batches.outcome import Ended
from airflow_provider_sfevents.batches.position import position_writes
from airflow_provider_sfevents.batches.recovery import described
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    LeaseHeldError,
    QuotaExceededError,
    ReplayIdRefusedError,
    SfEventsError,
    StagingError,
    StoppedError,
    TransportError,
)
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.pubsub.topic_names import TransportName
from airflow_provider_sfevents.staging import extra_deliveries
from airflow_provider_sfevents.staging.manifest import LossWindow, Manifest, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.position.position_writes import Pin
    from airflow_provider_sfevents.batches.recovery import FetchPlan
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Lease
    from airflow_provider_sfevents.staging.parts.part_writer import PartWriter

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 10.0
"""Seconds between two progress lines in the log of a long fetch."""

MARGIN_SECONDS = 60.0
"""Seconds beyond `max_seconds` after which a fetch is cancelled. Ending a stream takes up to 10 s
(`Timeouts.rest_seconds`); the rest is for a slow staging area."""


class BatchFetch:
    """Fetches one batch into its folder; the caller holds the lease.

    :param bounds: of the batch, including what earlier attempts have kept.
    :param plan: where to start and which files of earlier attempts to keep.
    :param pin: writes the replay id of `latest` into the position, if the plan starts there.
    :param staging_id: of the staging area.
    :param elsewhere: number of the batch's events staged in another staging area, as far as known.
    """

    def __init__(
        self,
        request: BatchRequest,
        bounds: Bounds,
        position: Position,
        plan: FetchPlan,
        topic_folder: TopicFolder,
        folder: BatchFolder,
        lease: Lease,
        store: PositionStore,
        staging_id: str,
        *,
        pin: Pin | None = None,
        elsewhere: int = 0,
    ) -> None:
        self._begun_at = datetime.now(UTC).isoformat()
        self._request = request
        self._bounds = bounds
        self._position = position
        self._plan, self._later = plan.within(bounds.max_events)
        self._topic_folder = topic_folder
        self._folder = folder
        self._lease = lease
        self._store = store
        self._staging_id = staging_id
        self._pin = pin
        self._deadline = 0.0
        self._elsewhere = elsewhere
        self._files = AsyncExitStack()
        self._writer: PartWriter | None = None
        self._schemas = EventSchemas(folder)
        self._received = plan.events
        self._first: Delivery | None = None
        self._reported_at = time.monotonic()

    async def run(self, client: TopicClient, stopping: asyncio.Event) -> Manifest | Ended:
        """Fetch; return the manifest of the staged batch, or the end of a fetch without events.

        :raises StoppedError: `stopping` was set; received events are kept.
        :raises TransportError: the service or a schema was unavailable for all of `max_seconds`;
            received events are kept.
        """
        log.info("%s", described(self._request.topic, self._plan, self._bounds))
        if self._bounds.until is not None and self._plan.kept:
            self._plan = await self._judged_by_time(client, self._bounds.until)
        self._deadline = asyncio.get_running_loop().time() + self._bounds.max_seconds
        next_batch = NextBatch.after(self._position, self._request.managed)
        async with open_source(
            client, next_batch, self._plan, self._topic_folder, self._staging_id
        ) as source:
            staged, beyond = await self._stage(client, source, stopping)
            if isinstance(staged, Manifest):
                if self._request.managed:
                    await asyncio.to_thread(
                        position_writes.take_area,
                        self._store,
                        self._position,
                        self._staging_id,
                        self._lease,
                    )
                await source.keep(staged.end)
                if beyond:
                    await carry_over(
                        self._topic_folder,
                        staged,
                        beyond,
                        self._request.run,
                        self._bounds.max_events,
                    )
        return staged

    async def _judged_by_time(self, client: TopicClient, until: datetime) -> FetchPlan:
        """Return the plan, which knows then whether its last kept event ends the batch already."""
        last = self._plan.kept[-1]
        await self._schemas.keep_if_available(client, set(last.schemas))
        created = await asyncio.to_thread(self._last_event_at, client, last)
        reached = bool(created) and datetime.fromisoformat(created) >= until
        return replace(self._plan, until_reached=reached)

    async def _stage(
        self, client: TopicClient, source: EventSource, stopping: asyncio.Event
    ) -> tuple[Manifest | Ended, tuple[Delivery, ...]]:
        if self._later:  # an earlier batch has left more than this one may have
            beyond = await asyncio.to_thread(staged_deliveries, self._folder, self._later)
            ended = Ended(ended_by="max_events", beyond=beyond)
        else:
            async with self._files:
                ended = await self._fetch(client, source, stopping)
        parts = (*self._plan.kept, *(await self._writer.close() if self._writer else ()))
        if ended.ended_by == "stopped":
            raise self._stopped(parts)
        if not parts:
            return await self._without_events(ended), ()
        schemas = {schema for part in parts for schema in part.schemas}
        try:
            await outlast(lambda: self._schemas.keep(client, schemas), self._deadline, stopping)
        except StoppedError as stopped:
            raise self._stopped(parts) from stopped
        losses = await self._losses(client)
        if not ended.last_event_at:
            ended = replace(ended, last_event_at=self._last_event_at(client, parts[-1]))
        manifest = self._write_manifest(client, parts, ended, losses, source.repeated())
        # Another process may have written the manifest, with another end: then drop `beyond`.
        return manifest, ended.beyond if manifest.end == parts[-1].end else ()

    def _stopped(self, parts: tuple[Part, ...]) -> StoppedError:
        events = sum(part.events for part in parts)
        return StoppedError(
            f"The task was ended while it fetched {self._request.topic}; what came "
            f"({counted(events, 'event')}) stays staged for the next try."
        )

    async def _fetch(
        self, client: TopicClient, source: EventSource, stopping: asyncio.Event
    ) -> Ended:
        async def receive(delivery: Delivery) -> None:
            steps.reached(steps.DELIVERED, self._folder.batch_id)
            await self._keep(delivery, source)
            self._report(len(delivery))
            await self._schemas.keep_if_available(client, set(delivery.schema_ids))

        try:
            async with asyncio.timeout(self._bounds.max_seconds + MARGIN_SECONDS):
                result = await source.fetch(
                    self._plan.subscribe_at,
                    self._bounds,
                    receive,
                    already=self._plan.progress,
                    stop=stopping,
                    on_keepalive=self._pin_to_keepalive if self._pin else None,
                    equal_points=(self._plan.resume,),
                    outlast=True,
                )
        except TimeoutError as error:
            raise TransportError(
                f"The fetch of {self._request.topic} did not end by itself within max_seconds "
                f"({self._bounds.max_seconds:.0f} s) and another {MARGIN_SECONDS:.0f} s, so it was "
                "cancelled. What is in closed files stays staged for the next try."
            ) from error
        except SfEventsError as error:
            return self._ended_by_error(error)
        return _ended(result)

    def _ended_by_error(self, error: SfEventsError) -> Ended:
        """Return the end of a fetch without new events, so that events kept earlier land first.

        :raises SfEventsError: nothing was kept; or keepalive point, lease or staging area failed.
        """
        keepalive_point_is_refused = self._plan.keepalive_points and isinstance(
            error, ReplayIdRefusedError
        )
        if (
            not self._plan.kept
            or keepalive_point_is_refused
            or isinstance(error, LeaseHeldError | StagingError)
        ):
            raise error
        passes = isinstance(error, TransportError) and not isinstance(error, QuotaExceededError)
        return Ended(ended_by="lost" if passes else "error", error=str(error))

    async def _keep(self, delivery: Delivery, source: EventSource) -> None:
        """Append a delivery to the file; the first one pins `latest` before anything is staged.

        The file that holds the pinning event says `latest` as its start (`recovery`).
        """
        self._first = self._first or delivery
        pinned_here, start = self._pin is not None, self._plan.resume.to_text()
        try:
            if pinned_here:
                await self._pin_to(delivery.replay_ids[0].hex(), record.EVENT)
            if self._writer is None and self._request.managed:
                await asyncio.to_thread(
                    position_writes.require_unchanged, self._store, self._position
                )
        except LeaseHeldError:
            log.warning(
                "Dropped %s of %s: another task has begun the position. They count against the "
                "org's daily allowance, and no batch counts them in its `excess`.",
                counted(len(delivery), "event"),
                self._request.topic,
            )
            raise
        if self._writer is None:
            self._writer = await self._files.enter_async_context(
                self._folder.writer(self._lease, start, self._plan.events)
            )
        await self._writer.append(delivery)
        if pinned_here:
            # Only this file holds the pinning event. And a managed subscription has no committed
            # replay id yet: its next stream would begin at a later `latest`.
            await source.keep(await self._writer.sealed())

    async def _pin_to_keepalive(self, replay_id: str) -> None:
        if self._pin is not None:
            await self._pin_to(replay_id, record.KEEPALIVE)

    async def _pin_to(self, replay_id: str, by: str) -> None:
        assert self._pin is not None  # noqa: S101 - the callers have checked
        self._position = await asyncio.to_thread(self._pin.record, replay_id, by, self._lease)
        self._plan = replace(self._plan, start=self._position.start)
        self._pin = None

    async def _losses(self, client: TopicClient) -> tuple[LossWindow, ...]:
        """Return the loss window before this batch, with the time of the first event if known."""
        loss, first = self._position.loss, self._first
        if loss is None:
            return ()
        if first is None or self._plan.kept:
            return (loss,)
        try:
            read = await client.times_of(first.schema_ids[0])
        except SfEventsError:
            return (loss,)  # the time only informs; it must not fail a fetched batch
        created = read(first.payloads[0])
        return (replace(loss, first_event_at=created.isoformat() if created else ""),)

    def _last_event_at(self, client: TopicClient, last: Part) -> str:
        """Return the creation time of a kept file's last event, ISO-8601; empty if unknown."""
        try:
            schema_id, payload = self._folder.last_event(last)
            created = client.event_time_reader(self._folder.read_schema(schema_id))(payload)
        except StagingError as error:
            log.warning("Could not read the time of the batch's last event: %s", error)
            return ""
        return created.isoformat() if created else ""

    def _report(self, events: int) -> None:
        self._received += events
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_SECONDS:
            self._reported_at = now
            log.info("%d of at most %d events received.", self._received, self._bounds.max_events)

    async def _without_events(self, ended: Ended) -> Ended:
        """Record a keepalive in the position, so that a quiet topic's replay id does not expire.

        Over the Streaming API it is the replay id of the last event, and its time counts, unless
        the silence was too short to show that no event was pending.
        """
        known = ["", self._position.resume_after, self._position.start.to_text()]
        proves = True
        if self._position.transport == TransportName.STREAMING:
            known, proves = [""], not ended.short_silence
        if proves and ended.latest_replay_id not in known:
            await asyncio.to_thread(
                position_writes.keep_keepalive,
                self._store,
                self._position,
                ended.latest_replay_id,
                self._lease,
            )
        is_pinned = self._position.start.not_before is not None
        return replace(ended, latest_replay_id=self._plan.start.to_text()) if is_pinned else ended

    def _write_manifest(
        self,
        client: TopicClient,
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
            batch_number=position.batch_number + 1,
            batch_id=folder.batch_id,
            position_start=position.replay_id,
            start=self._plan.start.to_text(),
            end=parts[-1].end,
            events=sum(part.events for part in parts),
            bytes=sum(part.bytes for part in parts),
            ended_by=ended.ended_by,
            short_silence=ended.short_silence,
            parts=parts,
            schemas=tuple(sorted({schema for part in parts for schema in part.schemas})),
            created_at=datetime.now(UTC).isoformat(),
            begun_at=self._begun_at,
            run=self._request.run,
            error=ended.error,
            last_event_at=ended.last_event_at,
            overlaps=bool(losses) or record.overlaps(position),
            losses=losses,
            payload_format=client.payload_format,
            extra_deliveries=extra_deliveries.sums(
                folder.read_extra_deliveries(),
                extra_deliveries.of_attempts(
                    folder.attempts_before(self._lease), (*parts, *self._later)
                ),
                repeated,
                {
                    extra_deliveries.BEYOND_BOUND: ended.beyond_bound,
                    extra_deliveries.STAGED_ELSEWHERE: self._elsewhere,
                },
            ),
        )
        if position.batch_number == 0:
            position_writes.write_origin(
                self._topic_folder, position
            )  # a position written by hand has none yet
        self._lease.check()
        steps.reached(steps.MANIFEST_NEXT, manifest.batch_id)
        created = folder.create_manifest(manifest)
        steps.reached(steps.MANIFEST_WRITTEN, manifest.batch_id)
        return created


def _ended(result: FetchResult) -> Ended:
    return Ended(
        ended_by=result.ended_by,
        latest_replay_id=result.latest_replay_id.hex(),
        last_event_at=result.last_event_at.isoformat() if result.last_event_at else "",
        error=str(result.error) if result.error else "",
        short_silence=result.short_silence,
        beyond_bound=result.beyond_bound,
        beyond=result.beyond,
    )
