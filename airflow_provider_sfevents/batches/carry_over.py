"""Events that were delivered beyond a batch's bounds: they become the next batch's first parts.

A part has no more events than a batch, so that the next batch can leave what is beyond it, too, to
the one after it.

They count against the org's daily allowance, so they are kept. If another process holds the next
batch, or has begun it, they are dropped and counted: the next batch has them delivered once more.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import LeaseHeldError, StagingError
from airflow_provider_sfevents.pubsub.streaming.delivery import ReceivedMessage, from_messages
from airflow_provider_sfevents.staging import extra_deliveries, layout
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.manifest import Manifest, Part, Run

log = logging.getLogger(__name__)


async def carry_over(
    topic_folder: TopicFolder,
    manifest: Manifest,
    beyond: tuple[Delivery, ...],
    run: Run,
    max_events: int,
) -> None:
    """Stage the events beyond a staged batch as the first parts of the next one, under its lease.

    :param manifest: of the batch that the events came after; it is written already.
    :param beyond: deliveries after the batch's last event, in order.
    :param run: of the task, for the lease.
    :param max_events: most events of a batch, and of a part.
    """
    events = sum(map(len, beyond))
    folder = topic_folder.batch(manifest.epoch, manifest.batch_number + 1)
    steps.reached(steps.CARRY_OVER_NEXT, folder.batch_id)
    try:
        kept = await _keep_in(folder, manifest.end, beyond, run, max_events)
    except (LeaseHeldError, StagingError) as error:
        log.warning("%s beyond the batch cannot be kept: %s", counted(events, "event"), error)
        kept = False
    if kept:
        log.info(
            "%s beyond the batch kept as the start of batch %s.",
            counted(events, "event"),
            folder.batch_id,
        )
        return
    batch = topic_folder.batch(manifest.epoch, manifest.batch_number)
    await asyncio.to_thread(_note_dropped, batch, manifest, events)


def staged_deliveries(folder: BatchFolder, parts: tuple[Part, ...]) -> tuple[Delivery, ...]:
    """Read events of closed files, to leave them to the next batch. Blocks.

    :raises StagingError: a file cannot be read.
    """
    rows = folder.events(parts)
    messages = [
        ReceivedMessage(
            event_id=row[layout.EVENT_ID],
            replay_id=row[layout.REPLAY_ID],
            schema_id=row[layout.SCHEMA_ID],
            payload=row[layout.PAYLOAD],
        )
        for row in rows
    ]
    received_at = int(rows[0][layout.RECEIVED_AT].timestamp() * 1_000_000)
    last = messages[-1].replay_id
    return (from_messages(messages, received_at=received_at, latest_replay_id=last),)


def _note_dropped(batch: BatchFolder, manifest: Manifest, events: int) -> None:
    """Count dropped events in a sidecar file of the batch. Blocks.

    That count replaces the manifest's, so it includes the manifest's number.
    """
    said = manifest.extra_deliveries.get(extra_deliveries.BEYOND_BOUND, 0)
    beside = batch.read_extra_deliveries().get(extra_deliveries.BEYOND_BOUND, 0)
    batch.count_extra_deliveries({extra_deliveries.BEYOND_BOUND: said - beside + events})


async def _keep_in(
    folder: BatchFolder, start: str, beyond: tuple[Delivery, ...], run: Run, max_events: int
) -> bool:
    holder = LeaseHolder.here(run, datetime.now(UTC).isoformat())
    lease = await folder.take_lease_in_thread(holder)
    try:
        if await asyncio.to_thread(lambda: folder.read_manifest() or folder.parts()):
            return False
        steps.reached(steps.CARRY_OVER_LEASED, folder.batch_id)
        async with folder.writer(lease, start, 0, is_billed=False) as writer:
            room = max_events
            for delivery in beyond:
                rest = delivery
                while len(rest):
                    if not room:
                        await writer.sealed()
                        room = max_events
                    await writer.append(rest.head(room))
                    rest, room = rest.tail(room), max(0, room - len(rest))
            await writer.close()
        return True
    finally:
        await asyncio.to_thread(lease.release)
