"""Find out on a worker whether enough is pending after the position; the position does not move.

1. A rerun that has its own batch has nothing to wait for.
2. Staged events count first: a whole batch is enough, and so are files that hold enough events.
3. While another process holds the lease, the answer is "not yet": that process takes the pending
   events.
4. Only then does the wait listen to the bus. It stages what it receives, so that the next poke,
   trigger or task continues after it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery, reruns
from airflow_provider_sfevents.batches.event_source import SETUP_SECONDS, resolve_first_start
from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.position import (
    position_writes,
    replay_fallback,
    replay_id_age,
)
from airflow_provider_sfevents.batches.position.open_position import (
    open_position,
    warn_of_other_area,
)
from airflow_provider_sfevents.batches.position.position_writes import Pin
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    LeaseHeldError,
    PositionConflictError,
    ReplayIdRefusedError,
    SfEventsError,
    StagingError,
    StoppedError,
)
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.pubsub.managed.managed_rules import SlotTakenError
from airflow_provider_sfevents.replay_point import LATEST
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.waiting.batch_status import settled_status
from airflow_provider_sfevents.waiting.listen import listen
from airflow_provider_sfevents.waiting.wait_result import GAVE_WAY, STOPPED

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.waiting.batch_status import BatchStatus
    from airflow_provider_sfevents.waiting.wait_result import WaitResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Events that are pending, as far as a worker knows.

    :param next_batch: the batch after the position; None: a rerun has none, or another task is
        about to begin the position.
    :param events: number of pending events.
    :param enough: they are enough to end the wait.
    :param staged: all of them are staged, in staging area `staging_id`.
    :param why: a sentence for users, if there is something to explain.
    """

    next_batch: NextBatch | None
    events: int
    enough: bool
    staged: bool = True
    staging_id: str = ""
    why: str = ""


async def find(
    request: BatchRequest,
    min_events: int,
    client: TopicClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    told: WaitResult | None = None,
) -> Pending:
    """Count pending events by position and staging area, on a worker, without a subscription.

    Only the read access to the topic is checked online.

    :param open_store: returns the position store of an org id.
    :param told: result of a triggerer's wait; it counts if this worker does not see its files.
    :raises SfEventsError: as `stage_batch` does before it fetches.
    """
    found = await _look(request, client, area, open_store)
    if isinstance(found, Pending):
        return found
    pending = _judged(found, min_events)
    if told is None or told.batch_id != found.next_batch.batch_id or found.status.held_by:
        return pending
    await asyncio.to_thread(_record_told, request, found, told)
    return pending if pending.enough else _believed(pending, found, min_events, told)


async def poke(
    request: BatchRequest,
    min_events: int,
    client: TopicClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    stopping: asyncio.Event,
) -> Pending:
    """Look at position and staging area, on a worker, and listen if that is not enough.

    It listens for `idle_seconds`, or at `latest` until the topic has a replay id. Received events
    are staged. When the bus refuses the replay id, `replay_fallback` decides, as in a fetch.

    :param stopping: set from outside to end it early; received events are kept.
    :raises StoppedError: `stopping` was set.
    :raises StagingError: events came, not enough, and cannot be staged: each poke would have them
        delivered again.
    :raises SfEventsError: as `stage_batch` does.
    """
    found = await _look(request, client, area, open_store)
    if isinstance(found, Pending):
        return found
    pending, plan = _judged(found, min_events), found.status.plan
    if pending.enough or found.status.held_by or not isinstance(plan, recovery.FetchPlan):
        return pending
    try:
        waited = await _listen(request, min_events, client, area, found, plan, stopping)
    except SlotTakenError as taken:  # the other client receives the events
        return replace(pending, why=str(taken))
    except ReplayIdRefusedError as refused:
        if plan.kept:
            return replace(pending, enough=True, why=f"{refused} What is staged lands first.")
        found = await asyncio.to_thread(_fall_back, request, found, refused)
        plan = recovery.FetchPlan(start=found.next_batch.start)
        waited = await _listen(request, min_events, client, area, found, plan, stopping)
    if plan.subscribe_at != LATEST or waited.ended_by in GAVE_WAY:
        return _after_listening(found.next_batch, waited, min_events)
    return await _after_latest(request, min_events, client, area, open_store, waited)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """State that a worker finds without listening.

    :param stored: the position as it is in the store; None: it is in none.
    """

    next_batch: NextBatch
    status: BatchStatus
    position: Position
    stored: Position | None
    store: PositionStore
    topic_folder: TopicFolder
    folder: BatchFolder
    staging_id: str

    @property
    def pin(self) -> Pin | None:
        """Writes the replay id of `latest`; None if the position is pinned."""
        if self.position.is_pinned:
            return None
        return Pin(
            draft=self.position,
            stored=self.stored,
            store=self.store,
            folder=self.topic_folder,
            staging_id=self.staging_id,
        )


async def _look(
    request: BatchRequest,
    client: TopicClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
) -> _Found | Pending:
    """Read position and staging area; return `Pending` if the answer is known without them."""
    session = await client.session()
    topic_folder = area.topic(session.org_id, request.consumer, request.topic)
    # Stores are read on this thread: Airflow's are bound to the task's thread, and answer at once.
    store = open_store(session.org_id)
    if reruns.may_own_a_batch(request):
        own = reruns.find_own(request, stores.read(store), topic_folder.manifests(), store.where)
        if own is not None:
            why = f"run {request.run.run} has batch {own.batch_id}, which is landed again"
            return Pending(next_batch=None, events=own.events, enough=True, why=why)
    await client.require_readable(request.topic)
    request = await resolve_first_start(request, client, area, max_age_seconds=SETUP_SECONDS)
    staging_id = await asyncio.to_thread(area.known_id)
    try:
        opened = open_position(request, session, topic_folder, store, staging_id)
    except LeaseHeldError as leased:
        return Pending(next_batch=None, events=0, enough=False, why=str(leased))
    warn_of_other_area(opened.position, staging_id, store.where)
    next_batch = NextBatch.after(opened.position, request.managed)
    try:
        seen = await settled_status(next_batch, area)
    except PositionConflictError as conflict:
        if stores.read(store) == opened.stored:
            raise
        log.info("The position was begun while this wait looked at it: %s", conflict)
        why = f"another task has just begun {store.where}"
        return Pending(next_batch=None, events=0, enough=False, why=why)
    return _Found(
        next_batch=next_batch,
        status=seen,
        position=opened.position,
        stored=opened.stored,
        store=store,
        topic_folder=topic_folder,
        folder=next_batch.folder(area),
        staging_id=staging_id,
    )


def _judged(found: _Found, min_events: int) -> Pending:
    seen = found.status
    if seen.held_by:
        why = f"batch {found.next_batch.batch_id} is held by {seen.held_by}"
        return Pending(next_batch=found.next_batch, events=seen.events, enough=False, why=why)
    whole = not isinstance(seen.plan, recovery.FetchPlan)
    enough = whole or seen.events >= min_events
    why = f"batch {found.next_batch.batch_id} is staged" if whole else ""
    return Pending(
        next_batch=found.next_batch,
        events=seen.events,
        enough=enough,
        staging_id=found.staging_id,
        why=why,
    )


def _record_told(request: BatchRequest, found: _Found, told: WaitResult) -> None:
    """Record a triggerer's wait in the position, because a triggerer has no access to the store."""
    if not (told.resume_after or (told.staged and told.events)) or found.stored is None:
        return
    holder = LeaseHolder.here(request.run, datetime.now(UTC).isoformat())
    try:
        with found.folder.take_lease(holder) as lease:
            if told.staged and told.events:
                epoch, batch_number = found.next_batch.epoch, found.next_batch.batch_number
                position_writes.note_wait(
                    found.store, epoch, batch_number, told.staging_id, told.events, lease
                )
            elif not found.status.events:
                position_writes.keep_keepalive(found.store, found.stored, told.resume_after, lease)
    except SfEventsError as error:
        log.warning("Could not record the result of the wait in the position: %s", error)


def _believed(pending: Pending, found: _Found, min_events: int, told: WaitResult) -> Pending:
    """Return pending events that a triggerer has staged where this worker does not see them."""
    if told.events < min_events:
        return pending
    folder = found.folder.url
    why = told.why
    if told.staged:
        why = (
            f"The triggerer has staged {counted(told.events, 'event')} of batch "
            f"{found.next_batch.batch_id}, of which this worker sees {pending.events} in {folder}; "
            "they are delivered once more, and count a second time against the org's daily "
            "allowance. Give triggerer and workers one staging area (`staging`, an object store or "
            "a folder that all mount)."
        )
        log.warning("%s", why)
    return Pending(
        next_batch=found.next_batch,
        events=told.events,
        enough=True,
        staged=False,
        staging_id=told.staging_id,
        why=why,
    )


async def _listen(
    request: BatchRequest,
    min_events: int,
    client: TopicClient,
    area: StagingArea,
    found: _Found,
    plan: recovery.FetchPlan,
    stopping: asyncio.Event,
) -> WaitResult:
    now = datetime.now(UTC)
    bounds = replay_id_age.bounds(request, found.position, plan, found.topic_folder, now)
    waited = await listen(
        found.next_batch,
        plan,
        client,
        area,
        replace(bounds, max_events=min_events),
        run=request.run,
        store=found.store,
        pin=found.pin,
        stop=stopping,
        max_wait=bounds.idle_seconds,
    )
    if waited.ended_by == STOPPED:
        raise StoppedError(
            f"The task was ended while it waited for {request.topic}; what came "
            f"({counted(waited.events, 'event')}) stays staged for the next try."
        )
    return waited


async def _after_latest(
    request: BatchRequest,
    min_events: int,
    client: TopicClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    waited: WaitResult,
) -> Pending:
    """Return the pending events after a wait at `latest`, which has pinned the position.

    :raises TransportError: neither an event nor a keepalive came, so the position is not pinned.
    """
    found = await _look(request, client, area, open_store)
    if isinstance(found, Pending):
        return found
    if not found.position.is_pinned:
        raise replay_id_age.unlearned(request.topic, waited.ended_by, request.bounds.max_seconds)
    pending = _judged(found, min_events)
    if pending.enough or waited.batch_id != found.next_batch.batch_id:
        return pending
    return _after_listening(found.next_batch, waited, min_events)


def _fall_back(request: BatchRequest, found: _Found, refused: ReplayIdRefusedError) -> _Found:
    """Return the position after `replay_fallback`; written unless `latest` has to be pinned first.

    :raises ReplayIdRefusedError: `replay_fallback` is `fail`.
    :raises LeaseHeldError: another task holds the lease by now.
    """
    lost = replay_fallback.choose(found.position, request.replay_fallback, refused, found.store)
    stored = found.stored
    if lost.is_pinned:
        with found.folder.take_lease(
            LeaseHolder.here(request.run, datetime.now(UTC).isoformat())
        ) as lease:
            stored = position_writes.keep_loss(found.store, found.position, lost, lease)
    next_batch = NextBatch.after(lost, request.managed)
    return replace(found, next_batch=next_batch, position=lost, stored=stored)


def _after_listening(next_batch: NextBatch, waited: WaitResult, min_events: int) -> Pending:
    """Return the pending events after a wait.

    :raises StagingError: too few events came, and each further poke would have them delivered
        again.
    """
    enough = waited.events >= min_events and not waited.held_by
    if not waited.staged and not enough:
        raise StagingError(
            f"{waited.why} {waited.events} of {counted(min_events, 'event')} came so far, and each "
            "poke would have them delivered again."
        )
    why = (
        f"batch {next_batch.batch_id} is held by {waited.held_by}" if waited.held_by else waited.why
    )
    return Pending(
        next_batch=next_batch,
        events=waited.events,
        enough=enough,
        staged=waited.staged,
        staging_id=waited.staging_id,
        why=why,
    )
