"""From a position to a staged batch: look, claim, adopt or fetch.

The order matters, since the process may die between any two steps:

1. Log in and ask for the topic; nothing is spent, and most mistakes show here.
2. Read the position, or begin one; it is in its store before the first event is asked for.
3. Claim the batch after it, and read the position again: it may have moved while we waited.
4. Do what `restart.plan` says of what lies there; a fetch writes the manifest last.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.batches.fetch import BatchFetch, Ended
from airflow_provider_sfevents.batches.opening import open_position
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.exceptions import ReplayIdRefused
from airflow_provider_sfevents.staging.holders import Holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.claims import Claim
    from airflow_provider_sfevents.staging.manifest import Manifest
    from airflow_provider_sfevents.staging.marks import Anchor

log = logging.getLogger(__name__)

OLD = timedelta(hours=12)
"""Age from which a place's replay id should be renewed by a keepalive before silence ends a batch; the bus keeps
events for 72 hours (event message durability), so an hourly DAG has many tries left."""


async def stage_batch(
    request: BatchRequest,
    client: PubSubClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    stopping: asyncio.Event,
) -> Staged | Empty:
    """Stage the batch after the position, or find it staged.

    :param open_store: gives the position store, told the org's id.
    :param stopping: set from outside to end a fetch early; what has been received by then is kept.
    :raises TopicError: no such topic, or not for this user; before anything is spent.
    :raises BatchClaimed: somebody else is at work on the batch; before anything is spent.
    :raises PositionConflict: position, staging area and org contradict each other.
    :raises ReplayIdRefused: the bus does not know the position's replay id.
    :raises Stopped: `stopping` was set.
    """
    session = await client.session()
    await client.require_readable(request.topic)
    folder = area.topic(session.org_id, request.consumer, request.topic)
    # Stores are read on this thread on purpose: Airflow's are bound to the task's own, and they answer at once.
    store = open_store(session.org_id)
    claimed = await _claim(request, session, folder, store)
    try:
        staged = await _stage_claimed(request, client, claimed, stopping)
    except BaseException:
        claimed.claim.release()
        raise
    if isinstance(staged, Empty):
        claimed.claim.release()
    return staged


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claimed:
    position: Position
    topic_folder: TopicFolder
    folder: BatchFolder
    claim: Claim
    store: PositionStore


async def _claim(
    request: BatchRequest, session: Session, folder: TopicFolder, store: PositionStore
) -> _Claimed:
    """The position, and the batch after it, claimed; looked at until both belong together."""
    position = open_position(request, session, folder, store)
    while True:
        batch = folder.batch(position.epoch, position.sequence + 1)
        holder = Holder.here(request.run, datetime.now(UTC).isoformat())
        claim = await asyncio.to_thread(batch.claim, holder)
        try:
            now_at = open_position(request, session, folder, store)
        except BaseException:
            claim.release()
            raise
        if (now_at.epoch, now_at.sequence) == (position.epoch, position.sequence):
            return _Claimed(
                position=now_at, topic_folder=folder, folder=batch, claim=claim, store=store
            )
        claim.release()
        position = now_at


async def _stage_claimed(
    request: BatchRequest, client: PubSubClient, claimed: _Claimed, stopping: asyncio.Event
) -> Staged | Empty:
    anchor = _anchor(claimed)
    plan = restart.plan(_look(claimed, anchor))
    if isinstance(plan, restart.Fetch):
        bounds = _with_learning(request, claimed.position, anchor, plan)
        fetch = BatchFetch(
            request,
            bounds,
            claimed.position,
            plan,
            claimed.topic_folder,
            claimed.folder,
            claimed.claim,
        )
        try:
            came = await fetch.run(client, stopping)
        except ReplayIdRefused as error:
            raise ReplayIdRefused(_what_to_choose(error, plan.resume, claimed)) from error
        if isinstance(came, Ended):
            return Empty(
                batch_id=claimed.folder.batch_id,
                sequence=claimed.position.sequence + 1,
                start=plan.start,
                ended_by=came.ended_by,
            )
        log.info(
            "Batch %s is staged: %d events, ended by %s.", came.batch_id, came.events, came.ended_by
        )
        return _staged(claimed, came)
    landed = isinstance(plan, restart.Commit)
    if not landed:
        # Files that an earlier task left are read through before Spark is started on them.
        await asyncio.to_thread(claimed.folder.verify, plan.manifest)
    log.info(
        "Batch %s is %s already (%d events); nothing is fetched.",
        plan.manifest.batch_id,
        "landed" if landed else "staged",
        plan.manifest.events,
    )
    return _staged(claimed, plan.manifest, adopted=True, landed=landed)


def _what_to_choose(error: ReplayIdRefused, start: str, claimed: _Claimed) -> str:
    return (
        f"{error} The replay id is {start}, of {claimed.store.where}. Nothing was moved, and nothing is skipped without you. Events "
        "published after that place and no longer kept (72 hours) are lost to this topic; the org may also have been moved or "
        f"refreshed. To go on, write {claimed.store.where} anew with another word as `epoch`, 0 as `sequence` and as `replay_id` either "
        "`earliest` (all that the bus still holds; what has landed already lands again) or `latest` (what is published from now on)."
    )


def _anchor(claimed: _Claimed) -> Anchor | None:
    """The anchor, where it counts for the position as it is now."""
    anchor, position = claimed.topic_folder.read_anchor(), claimed.position
    if anchor is None or (anchor.epoch, anchor.sequence) != (position.epoch, position.sequence):
        return None
    return anchor


def _look(claimed: _Claimed, anchor: Anchor | None) -> restart.Found:
    manifest = claimed.folder.read_manifest()
    return restart.Found(
        position_start=claimed.position.start,
        anchor=anchor.replay_id if anchor else "",
        manifest=manifest,
        receipt=claimed.folder.read_receipt() if manifest else None,
        parts=() if manifest else tuple(claimed.folder.parts()),
    )


def _with_learning(
    request: BatchRequest, position: Position, anchor: Anchor | None, plan: restart.Fetch
) -> Bounds:
    """Where nothing recent is known of the place, silence must last until a keepalive could have told."""
    at_anchor = anchor is not None and anchor.replay_id == plan.start
    since = anchor.seen_at if anchor and at_anchor else position.committed_at
    unknown = plan.resume == "latest" or (
        bool(since) and datetime.now(UTC) - datetime.fromisoformat(since) > OLD
    )
    return (
        replace(request.bounds, learn_seconds=request.learn_seconds) if unknown else request.bounds
    )


def _staged(
    claimed: _Claimed, manifest: Manifest, *, adopted: bool = False, landed: bool = False
) -> Staged:
    return Staged(
        manifest=manifest,
        topic_folder=claimed.topic_folder,
        folder=claimed.folder,
        claim=claimed.claim,
        store=claimed.store,
        adopted=adopted,
        landed=landed,
    )
