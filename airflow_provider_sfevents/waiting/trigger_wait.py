"""Wait on a triggerer until enough events are pending; it knows the next batch, not the position.

A wait stages what it receives, and every wait and task reads the staged files first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import LATEST
from airflow_provider_sfevents.waiting.batch_status import BatchStatus, read_status
from airflow_provider_sfevents.waiting.listen import listen
from airflow_provider_sfevents.waiting.wait_result import MOVED, STAGED, STOPPED, WaitResult

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.manifest import Run

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
"""Seconds between two looks at a batch whose lease another process holds."""

GATHER_SECONDS = 5.0
"""Seconds for which a wait that needs more events keeps lease and file open after the first."""

RENEW_SECONDS = 12 * 3600.0
"""Seconds after which a triggerer's wait ends, so that a worker records its last keepalive.

The bus keeps events for 72 hours."""


async def wait(
    next_batch: NextBatch,
    min_events: int,
    client: TopicClient,
    area: StagingArea,
    *,
    run: Run,
    poll_seconds: float = POLL_SECONDS,
    gather_seconds: float = GATHER_SECONDS,
) -> WaitResult:
    """Wait on a triggerer until enough events are pending, or until a worker has to look.

    A worker has to look when the position has moved (`moved`), and after
    `RENEW_SECONDS` (`stopped`).

    :param run: the task that waits.
    :param poll_seconds: seconds between two looks while another process holds the lease; a
        subscription would have the same events delivered twice.
    :param gather_seconds: seconds to continue after the first event, while the events are not
        enough.
    :raises ReplayIdRefusedError: a worker has to choose where to continue.
    :raises SfEventsError: as `PubSubClient.fetch` does.
    """
    bounds = Bounds.by_count(min_events)  # when its time is up, the wait begins again
    renew = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(RENEW_SECONDS, renew.set)
    before: BatchStatus | None = None
    unstaged = ""
    try:
        while True:
            seen = before = await _seen(next_batch, area, before, poll_seconds)
            if seen.held_by:
                await asyncio.sleep(poll_seconds)
                continue
            if not isinstance(seen.plan, recovery.FetchPlan) or seen.events >= min_events:
                return WaitResult(batch_id=next_batch.batch_id, events=seen.events, ended_by=STAGED)
            waited = await listen(
                next_batch,
                seen.plan,
                client,
                area,
                bounds,
                run=run,
                stop=renew,
                max_wait=gather_seconds,
                until_enough=True,
                unstaged=unstaged,
            )
            if waited.ended_by in (MOVED, STOPPED):
                return waited
            if waited.events >= min_events and not waited.held_by:
                return waited
            unstaged = unstaged if waited.staged else waited.why
    finally:
        timer.cancel()


async def _seen(
    next_batch: NextBatch, area: StagingArea, before: BatchStatus | None, poll_seconds: float
) -> BatchStatus:
    """Read the batch's status on a triggerer; if the area stays unreadable, assume it is empty."""
    for patience in (True, True, False):
        try:
            return await asyncio.to_thread(read_status, next_batch, area, before)
        except StagingError as error:
            if next_batch.start == LATEST:
                raise
            if not patience:
                log.warning(
                    "The staging area cannot be read here; waiting on %s after %s nevertheless. "
                    "Events of batch %s that are staged already are delivered a second time. %s",
                    next_batch.topic,
                    next_batch.start,
                    next_batch.batch_id,
                    error,
                )
        await asyncio.sleep(poll_seconds)
    return BatchStatus(plan=recovery.FetchPlan(start=next_batch.start), events=0)
