"""Stage the batch after a position: log in, read the position, take the lease, reuse or fetch.

The order matters, because the process may die between any two steps:

1. Log in; no event is delivered yet, and most mistakes show here.
2. A rerun gets its own batch, or is refused (`reruns`); the rest is for other runs.
3. Check the topic. Read the position, or begin one; it is in its store before the first event is
   staged.
4. Take the lease of the batch after it, and read the position again: it may have moved in between.
5. Do what `recovery.plan` says of the batch's folder; a fetch writes the manifest last.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import recovery, reruns
from airflow_provider_sfevents.batches.event_schemas import keep_schemas
from airflow_provider_sfevents.batches.event_source import commit_staged, resolve_first_start
from airflow_provider_sfevents.batches.fetch import BatchFetch
from airflow_provider_sfevents.batches.next_batch import NextBatch, look
from airflow_provider_sfevents.batches.open_transaction import OpenTransaction, is_due
from airflow_provider_sfevents.batches.outage_retry import outlast
from airflow_provider_sfevents.batches.outcome import Empty, Ended, Staged
from airflow_provider_sfevents.batches.position import replay_fallback, replay_id_age
from airflow_provider_sfevents.batches.position.open_position import (
    events_elsewhere,
    open_position,
    warn_of_other_area,
)
from airflow_provider_sfevents.batches.position.position_writes import Pin, keep_loss, take_area
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    PositionConflictError,
    ReplayIdRefusedError,
    StoppedError,
    TransportError,
)
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.replay_point import LATEST
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Lease
    from airflow_provider_sfevents.staging.manifest import Manifest

log = logging.getLogger(__name__)


async def stage_batch(
    request: BatchRequest,
    client: TopicClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    stopping: asyncio.Event,
) -> Staged | Empty:
    """Stage the batch after the position, or find it staged; a rerun gets its own batch again.

    :param open_store: returns the position store of an org id.
    :param stopping: set from outside to end a fetch early; received events are kept.
    :raises TopicError: no such topic, or not for this user; before an event is delivered.
    :raises LeaseHeldError: another process holds the lease; before an event is delivered.
    :raises PositionConflictError: position, staging area, org and run contradict each other.
    :raises ReplayIdRefusedError: the bus does not know the position's replay id, and
        `replay_fallback` is `fail`.
    :raises TransportError: Salesforce could not be reached within `max_seconds`, and nothing is
        staged.
    :raises StoppedError: `stopping` was set.
    """
    deadline = asyncio.get_running_loop().time() + request.bounds.max_seconds
    session = await outlast(client.session, deadline, stopping)
    steps.reached(steps.AUTHENTICATED, session.org_id)
    folder = area.topic(session.org_id, request.consumer, request.topic)
    # Stores are read on this thread: Airflow's are bound to the task's thread, and answer at once.
    store = open_store(session.org_id)
    leased = await _lease_own(request, area, folder, store)
    if leased is None:
        asked = request
        await outlast(lambda: client.require_readable(asked.topic), deadline, stopping)
        request = await outlast(
            lambda: resolve_first_start(asked, client, area), deadline, stopping
        )
        staging_id = await asyncio.to_thread(area.staging_id)
        leased = await _lease_next(request, session, folder, store, staging_id)
    try:
        request = _within(request, leased.folder.batch_id, deadline)
        staged = await _stage_leased(request, client, leased, stopping)
        _unless_ended(staged, stopping)
    except BaseException:
        leased.lease.release()
        raise
    if isinstance(staged, Empty) and staged.open_transaction is None:
        leased.lease.release()
    return staged


def _within(request: BatchRequest, batch_id: str, deadline: float) -> BatchRequest:
    """Return the request for this batch, with the rest of `max_seconds`, at least a second.

    :param deadline: by the running loop's clock.
    """
    left = max(1.0, deadline - asyncio.get_running_loop().time())
    expected = request.bounds.expected if request.announced_batch == batch_id else 0
    return replace(request, bounds=replace(request.bounds, max_seconds=left, expected=expected))


def _unless_ended(staged: Staged | Empty, stopping: asyncio.Event) -> None:
    """Keep a task that was ended after its last event from starting Spark.

    :raises StoppedError: `stopping` is set.
    """
    if isinstance(staged, Staged) and stopping.is_set():
        raise StoppedError(
            f"The task was ended; batch {staged.manifest.batch_id} stays staged for the next try."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeasedBatch:
    """A batch whose lease this task holds.

    :param position: the one that the batch follows; None for the batch of a rerun.
    :param stored: the position as it is in the store; None: it is in none.
    """

    position: Position | None
    topic_folder: TopicFolder
    folder: BatchFolder
    lease: Lease
    store: PositionStore
    staging_id: str
    stored: Position | None = None


async def _lease_own(
    request: BatchRequest, area: StagingArea, folder: TopicFolder, store: PositionStore
) -> _LeasedBatch | None:
    """Take the lease of the batch that this run had staged before; None: it takes the next batch.

    :raises PositionConflictError: a rerun whose batch is gone.
    """
    if not reruns.may_own_a_batch(request):
        return None
    manifest = reruns.find_own(request, stores.read(store), folder.manifests(), store.where)
    if manifest is None:
        return None
    log.info("Run %s had staged batch %s; it is landed again.", manifest.run.run, manifest.batch_id)
    batch = folder.batch(manifest.epoch, manifest.batch_number)
    staging_id = await asyncio.to_thread(area.staging_id)
    lease = await _take_lease(request, batch)
    return _LeasedBatch(
        position=None,
        topic_folder=folder,
        folder=batch,
        lease=lease,
        store=store,
        staging_id=staging_id,
    )


async def _lease_next(
    request: BatchRequest,
    session: Session,
    folder: TopicFolder,
    store: PositionStore,
    staging_id: str,
) -> _LeasedBatch:
    """Take the lease of the batch after the position; repeat until both belong together."""
    position = open_position(request, session, folder, store, staging_id).position
    while True:
        batch = folder.batch(position.epoch, position.batch_number + 1)
        lease = await _take_lease(request, batch)
        try:
            opened = open_position(request, session, folder, store, staging_id)
        except BaseException:
            lease.release()
            raise
        now_at = opened.position
        if (now_at.epoch, now_at.batch_number) == (position.epoch, position.batch_number):
            warn_of_other_area(now_at, staging_id, store.where)
            return _LeasedBatch(
                position=now_at,
                topic_folder=folder,
                folder=batch,
                lease=lease,
                store=store,
                staging_id=staging_id,
                stored=opened.stored,
            )
        lease.release()
        position = now_at


async def _take_lease(request: BatchRequest, batch: BatchFolder) -> Lease:
    holder = LeaseHolder.here(request.run, datetime.now(UTC).isoformat())
    lease = await batch.take_lease_in_thread(holder)
    steps.reached(steps.LEASED, batch.batch_id)
    return lease


async def _stage_leased(
    request: BatchRequest, client: TopicClient, leased: _LeasedBatch, stopping: asyncio.Event
) -> Staged | Empty:
    if leased.position is None:
        return await _land_again(request, client, leased, stopping)
    plan = await asyncio.to_thread(_plan, leased, leased.position)
    if isinstance(plan, recovery.FetchPlan):
        position = leased.position
        if plan.lacks_first:
            lost = replay_fallback.without_first(position)
            position = await asyncio.to_thread(
                keep_loss, leased.store, position, lost, leased.lease
            )
        return await _fetch(request, client, leased, position, plan, stopping)
    landed = isinstance(plan, recovery.CommitPlan)
    if request.managed:
        position = await asyncio.to_thread(
            take_area, leased.store, leased.position, leased.staging_id, leased.lease
        )
        next_batch = NextBatch.after(position, request.managed)
        await commit_staged(client, next_batch, leased.topic_folder, leased.staging_id, stopping)
    if not landed:
        await _make_ready(request, client, leased, plan.manifest, stopping)
    log.info(
        "Batch %s is %s already (%s); nothing is fetched.",
        plan.manifest.batch_id,
        "landed" if landed else "staged",
        counted(plan.manifest.events, "event"),
    )
    if again := recovery.tried_often(plan.manifest, leased.lease.number, landed=landed):
        log.warning("%s", again)
    return _staged(leased, plan.manifest, reused=True, landed=landed)


async def _land_again(
    request: BatchRequest, client: TopicClient, leased: _LeasedBatch, stopping: asyncio.Event
) -> Staged:
    """Return a rerun's batch, to land again unless a mere retry's first try has landed it."""
    manifest = leased.folder.read_manifest()
    if manifest is None:  # swept before the lease was taken
        raise TransportError(
            f"Batch {leased.folder.batch_id} was removed from the staging area a moment ago."
        )
    landed = recovery.is_landed(manifest, leased.folder.read_receipt())
    rerun = request.cleared or request.backfill or not landed
    if rerun:
        await _make_ready(request, client, leased, manifest, stopping)
    return _staged(leased, manifest, reused=True, landed=not rerun, rerun=rerun)


async def _make_ready(
    request: BatchRequest,
    client: TopicClient,
    leased: _LeasedBatch,
    manifest: Manifest,
    stopping: asyncio.Event,
) -> None:
    """Verify an earlier task's files before Spark starts, and request the schemas that it lacks."""
    await asyncio.to_thread(leased.folder.verify, manifest, past=leased.position is None)
    deadline = asyncio.get_running_loop().time() + request.bounds.max_seconds
    await outlast(lambda: keep_schemas(leased.folder, client, manifest.schemas), deadline, stopping)


async def _fetch(
    request: BatchRequest,
    client: TopicClient,
    leased: _LeasedBatch,
    position: Position,
    plan: recovery.FetchPlan,
    stopping: asyncio.Event,
) -> Staged | Empty:
    try:
        came = await _batch_fetch(request, leased, position, plan).run(client, stopping)
    except ReplayIdRefusedError as error:
        # It ends: keepalive points, position and fallback are all different replay points.
        further = replay_fallback.without_keepalive_point(plan, error)
        if further is None:
            position = await asyncio.to_thread(_fall_back, request, leased, position, error)
            further = recovery.FetchPlan(start=position.start)
        return await _fetch(request, client, leased, position, further, stopping)
    if isinstance(came, Ended):
        if plan.subscribe_at == LATEST and not came.latest_replay_id:
            raise replay_id_age.unlearned(request.topic, came.ended_by, request.bounds.max_seconds)
        return Empty(
            batch_id=leased.folder.batch_id,
            position=position,
            start=plan.subscribe_at.to_text(),
            ended_by=came.ended_by,
            open_transaction=_open_transaction(leased, position, came.ended_by),
        )
    log.info(
        "Batch %s is staged: %s, ended by %s.",
        came.batch_id,
        counted(came.events, "event"),
        came.ended_by,
    )
    return _staged(leased, came)


def _open_transaction(
    leased: _LeasedBatch, position: Position, ended_by: str
) -> OpenTransaction | None:
    before = leased.topic_folder.batch(position.epoch, position.batch_number)
    if not position.batch_number or not is_due(ended_by, before.read_receipt()):
        return None
    manifest = before.read_manifest()
    if manifest is None:
        return None
    return OpenTransaction(manifest=manifest, folder=before, lease=leased.lease)


def _batch_fetch(
    request: BatchRequest, leased: _LeasedBatch, position: Position, plan: recovery.FetchPlan
) -> BatchFetch:
    bounds = replay_id_age.bounds(request, position, plan, leased.topic_folder, datetime.now(UTC))
    pin = None
    if plan.subscribe_at == LATEST:
        pin = Pin(
            draft=position,
            stored=leased.stored,
            store=leased.store,
            folder=leased.topic_folder,
            staging_id=leased.staging_id,
        )
    return BatchFetch(
        request,
        bounds,
        position,
        plan,
        leased.topic_folder,
        leased.folder,
        leased.lease,
        leased.store,
        leased.staging_id,
        pin=pin,
        elsewhere=events_elsewhere(position, leased.staging_id),
    )


def _fall_back(
    request: BatchRequest, leased: _LeasedBatch, position: Position, refused: ReplayIdRefusedError
) -> Position:
    """Return the position after `replay_fallback`; written unless `latest` has to be pinned first.

    :raises ReplayIdRefusedError: `replay_fallback` is `fail`, or the bus refuses that replay point,
        too.
    """
    lost = replay_fallback.choose(position, request.replay_fallback, refused, leased.store)
    return keep_loss(leased.store, position, lost, leased.lease) if lost.is_pinned else lost


def _plan(
    leased: _LeasedBatch, position: Position
) -> recovery.CommitPlan | recovery.ReusePlan | recovery.FetchPlan:
    found = look(NextBatch.after(position), leased.topic_folder, sound=True)
    try:
        return recovery.plan(found)
    except PositionConflictError:
        # A task whose lease has expired finds the files of the task that took the lease over.
        leased.lease.check()
        raise


def _staged(
    leased: _LeasedBatch,
    manifest: Manifest,
    *,
    reused: bool = False,
    landed: bool = False,
    rerun: bool = False,
) -> Staged:
    return Staged(
        manifest=manifest,
        topic_folder=leased.topic_folder,
        folder=leased.folder,
        lease=leased.lease,
        store=leased.store,
        staging_id=leased.staging_id,
        reused=reused,
        landed=landed,
        rerun=rerun,
    )
