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
from airflow_provider_sfevents.batches.fetch import BatchFetch, Ended
from airflow_provider_sfevents.batches.next_batch import Coming, look
from airflow_provider_sfevents.batches.open_transaction import Settling, is_due
from airflow_provider_sfevents.batches.outage_retry import outlast
from airflow_provider_sfevents.batches.outcome import Empty, Staged
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
from airflow_provider_sfevents.staging.lease_holder import Holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Claim
    from airflow_provider_sfevents.staging.manifest import Manifest

log = logging.getLogger(__name__)


async def stage_batch(
    request: BatchRequest,
    client: PubSubClient,
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
    :raises ReplayIdRefusedError: the bus does not know the position's replay id, and `replay_fallback`
        is `fail`.
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
    claimed = await _claim_own(request, area, folder, store)
    if claimed is None:
        asked = request
        await outlast(lambda: client.require_readable(asked.topic), deadline, stopping)
        request = await outlast(
            lambda: resolve_first_start(asked, client, area), deadline, stopping
        )
        staging_id = await asyncio.to_thread(area.staging_id)
        claimed = await _claim_next(request, session, folder, store, staging_id)
    try:
        request = _within(request, deadline)
        staged = await _stage_claimed(request, client, claimed, stopping)
        _unless_ended(staged, stopping)
    except BaseException:
        claimed.claim.release()
        raise
    if isinstance(staged, Empty) and staged.settling is None:
        claimed.claim.release()
    return staged


def _within(request: BatchRequest, deadline: float) -> BatchRequest:
    """Return the request with the rest of `max_seconds`, at least a second.

    :param deadline: by the running loop's clock.
    """
    left = max(1.0, deadline - asyncio.get_running_loop().time())
    return replace(request, bounds=replace(request.bounds, max_seconds=left))


def _unless_ended(staged: Staged | Empty, stopping: asyncio.Event) -> None:
    """Keep a task that was ended after its last event from starting Spark.

    :raises StoppedError: `stopping` is set.
    """
    if isinstance(staged, Staged) and stopping.is_set():
        raise StoppedError(
            f"The task was ended; batch {staged.manifest.batch_id} stays staged for the next try."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claimed:
    """A batch whose lease this task holds.

    :param position: the one that the batch follows; None for the batch of a rerun.
    :param stored: the position as it is in the store; None: it is in none.
    """

    position: Position | None
    topic_folder: TopicFolder
    folder: BatchFolder
    claim: Claim
    store: PositionStore
    staging_id: str
    stored: Position | None = None


async def _claim_own(
    request: BatchRequest, area: StagingArea, folder: TopicFolder, store: PositionStore
) -> _Claimed | None:
    """Take the lease of the batch that this run had staged before; None: it takes the next batch.

    :raises PositionConflictError: a rerun whose batch is gone.
    """
    if not reruns.may_own_a_batch(request):
        return None
    manifest = reruns.find_own(request, stores.read(store), folder.manifests(), store.where)
    if manifest is None:
        return None
    log.info("Run %s had staged batch %s; it is landed again.", manifest.run.run, manifest.batch_id)
    batch = folder.batch(manifest.epoch, manifest.sequence)
    staging_id = await asyncio.to_thread(area.staging_id)
    claim = await _claim(request, batch)
    return _Claimed(
        position=None,
        topic_folder=folder,
        folder=batch,
        claim=claim,
        store=store,
        staging_id=staging_id,
    )


async def _claim_next(
    request: BatchRequest,
    session: Session,
    folder: TopicFolder,
    store: PositionStore,
    staging_id: str,
) -> _Claimed:
    """Take the lease of the batch after the position; repeat until both belong together."""
    position = open_position(request, session, folder, store, staging_id).position
    while True:
        batch = folder.batch(position.epoch, position.sequence + 1)
        claim = await _claim(request, batch)
        try:
            opened = open_position(request, session, folder, store, staging_id)
        except BaseException:
            claim.release()
            raise
        now_at = opened.position
        if (now_at.epoch, now_at.sequence) == (position.epoch, position.sequence):
            warn_of_other_area(now_at, staging_id, store.where)
            return _Claimed(
                position=now_at,
                topic_folder=folder,
                folder=batch,
                claim=claim,
                store=store,
                staging_id=staging_id,
                stored=opened.stored,
            )
        claim.release()
        position = now_at


async def _claim(request: BatchRequest, batch: BatchFolder) -> Claim:
    holder = Holder.here(request.run, datetime.now(UTC).isoformat())
    claim = await batch.claim_in_thread(holder)
    steps.reached(steps.CLAIMED, batch.batch_id)
    return claim


async def _stage_claimed(
    request: BatchRequest, client: PubSubClient, claimed: _Claimed, stopping: asyncio.Event
) -> Staged | Empty:
    if claimed.position is None:
        return await _land_again(request, client, claimed, stopping)
    plan = await asyncio.to_thread(_plan, claimed, claimed.position)
    if isinstance(plan, recovery.Fetch):
        position = claimed.position
        if plan.lacks_first:
            lost = replay_fallback.without_first(position)
            position = await asyncio.to_thread(
                keep_loss, claimed.store, position, lost, claimed.claim
            )
        return await _fetch(request, client, claimed, position, plan, stopping)
    landed = isinstance(plan, recovery.Commit)
    if request.managed:
        position = await asyncio.to_thread(
            take_area, claimed.store, claimed.position, claimed.staging_id, claimed.claim
        )
        coming = Coming.after(position, request.managed)
        await commit_staged(client, coming, claimed.topic_folder, claimed.staging_id, stopping)
    if not landed:
        await _make_ready(request, client, claimed, plan.manifest, stopping)
    log.info(
        "Batch %s is %s already (%s); nothing is fetched.",
        plan.manifest.batch_id,
        "landed" if landed else "staged",
        counted(plan.manifest.events, "event"),
    )
    return _staged(claimed, plan.manifest, adopted=True, landed=landed)


async def _land_again(
    request: BatchRequest, client: PubSubClient, claimed: _Claimed, stopping: asyncio.Event
) -> Staged:
    """Return a rerun's batch, to land again unless a mere retry's first try has landed it."""
    manifest = claimed.folder.read_manifest()
    if manifest is None:  # swept before the lease was taken
        raise TransportError(
            f"Batch {claimed.folder.batch_id} was removed from the staging area a moment ago."
        )
    landed = recovery.is_landed(manifest, claimed.folder.read_receipt())
    again = request.cleared or request.backfill or not landed
    if again:
        await _make_ready(request, client, claimed, manifest, stopping)
    return _staged(claimed, manifest, adopted=True, landed=not again, again=again)


async def _make_ready(
    request: BatchRequest,
    client: PubSubClient,
    claimed: _Claimed,
    manifest: Manifest,
    stopping: asyncio.Event,
) -> None:
    """Verify an earlier task's files before Spark starts, and request the schemas that it lacks."""
    await asyncio.to_thread(claimed.folder.verify, manifest, past=claimed.position is None)
    deadline = asyncio.get_running_loop().time() + request.bounds.max_seconds
    await outlast(
        lambda: keep_schemas(claimed.folder, client, manifest.schemas), deadline, stopping
    )


async def _fetch(
    request: BatchRequest,
    client: PubSubClient,
    claimed: _Claimed,
    position: Position,
    plan: recovery.Fetch,
    stopping: asyncio.Event,
) -> Staged | Empty:
    try:
        came = await _batch_fetch(request, claimed, position, plan).run(client, stopping)
    except ReplayIdRefusedError as error:
        # It ends: keepalive points, position and fallback are all different replay points.
        further = replay_fallback.without_anchor(plan, error)
        if further is None:
            position = await asyncio.to_thread(_fall_back, request, claimed, position, error)
            further = recovery.Fetch(start=position.start)
        return await _fetch(request, client, claimed, position, further, stopping)
    if isinstance(came, Ended):
        if plan.subscribe_at == LATEST and not came.latest_replay_id:
            raise replay_id_age.unlearned(request.topic, came.ended_by, request.bounds.max_seconds)
        return Empty(
            batch_id=claimed.folder.batch_id,
            position=position,
            start=plan.subscribe_at.to_text(),
            ended_by=came.ended_by,
            settling=_settling(claimed, position, came.ended_by),
        )
    log.info(
        "Batch %s is staged: %s, ended by %s.",
        came.batch_id,
        counted(came.events, "event"),
        came.ended_by,
    )
    return _staged(claimed, came)


def _settling(claimed: _Claimed, position: Position, ended_by: str) -> Settling | None:
    before = claimed.topic_folder.batch(position.epoch, position.sequence)
    if not position.sequence or not is_due(ended_by, before.read_receipt()):
        return None
    manifest = before.read_manifest()
    if manifest is None:
        return None
    return Settling(manifest=manifest, folder=before, claim=claimed.claim)


def _batch_fetch(
    request: BatchRequest, claimed: _Claimed, position: Position, plan: recovery.Fetch
) -> BatchFetch:
    bounds = replay_id_age.bounds(request, position, plan, claimed.topic_folder, datetime.now(UTC))
    pin = None
    if plan.subscribe_at == LATEST:
        pin = Pin(
            draft=position,
            stored=claimed.stored,
            store=claimed.store,
            folder=claimed.topic_folder,
            staging_id=claimed.staging_id,
        )
    return BatchFetch(
        request,
        bounds,
        position,
        plan,
        claimed.topic_folder,
        claimed.folder,
        claimed.claim,
        claimed.store,
        claimed.staging_id,
        pin=pin,
        elsewhere=events_elsewhere(position, claimed.staging_id),
    )


def _fall_back(
    request: BatchRequest, claimed: _Claimed, position: Position, refused: ReplayIdRefusedError
) -> Position:
    """Return the position after `replay_fallback`; written unless `latest` has to be pinned first.

    :raises ReplayIdRefusedError: `replay_fallback` is `fail`, or the bus refuses that replay point, too.
    """
    lost = replay_fallback.choose(position, request.replay_fallback, refused, claimed.store.where)
    return keep_loss(claimed.store, position, lost, claimed.claim) if lost.is_pinned else lost


def _plan(
    claimed: _Claimed, position: Position
) -> recovery.Commit | recovery.Adopt | recovery.Fetch:
    found = look(Coming.after(position), claimed.topic_folder, sound=True)
    try:
        return recovery.plan(found)
    except PositionConflictError:
        # A task whose lease has expired finds the files of the task that took the lease over.
        claimed.claim.check()
        raise


def _staged(
    claimed: _Claimed,
    manifest: Manifest,
    *,
    adopted: bool = False,
    landed: bool = False,
    again: bool = False,
) -> Staged:
    return Staged(
        manifest=manifest,
        topic_folder=claimed.topic_folder,
        folder=claimed.folder,
        claim=claimed.claim,
        store=claimed.store,
        staging_id=claimed.staging_id,
        adopted=adopted,
        landed=landed,
        again=again,
    )
