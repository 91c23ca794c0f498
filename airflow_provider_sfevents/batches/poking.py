"""Is enough pending after the position? Asked on a worker, which knows the position; nothing is moved.

1. A run of the past that has its own batch has nothing to wait for.
2. What is staged is looked at first: a whole batch is enough, whoever staged it, and files that hold enough events are.
3. While somebody is at work on the batch the answer is: not yet. What he takes will not be there for us.
4. Only then is the bus listened to, and what comes is staged, so that the next poke, trigger or task goes on after it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import age, fallback, past, restart
from airflow_provider_sfevents.batches.coming import Coming
from airflow_provider_sfevents.batches.heard import STOPPED
from airflow_provider_sfevents.batches.listening import listen
from airflow_provider_sfevents.batches.opening import open_position
from airflow_provider_sfevents.batches.sighting import settled_sight
from airflow_provider_sfevents.batches.supply import SETUP_SECONDS, fit
from airflow_provider_sfevents.exceptions import (
    BatchClaimed,
    ReplayIdRefused,
    StagingError,
    Stopped,
)
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.pubsub.managed_rules import SlotTaken
from airflow_provider_sfevents.pubsub.start import LATEST
from airflow_provider_sfevents.staging.holders import Holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.heard import Heard
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.sighting import Sight
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What a worker knows of what is pending.

    :param coming: the batch after the position; None: there is none to speak of (a run of the past, or somebody is about to begin).
    :param staged: all that is known of is staged.
    """

    coming: Coming | None
    events: int
    enough: bool
    staged: bool = True
    why: str = ""


async def find(
    request: BatchRequest,
    min_events: int,
    client: PubSubClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    told: Heard | None = None,
) -> Pending:
    """Look, on a worker; nothing is asked of the bus but whether the topic can be read.

    :param open_store: gives the position store, told the org's id.
    :param told: what a triggerer says of the batch; believed where this worker does not see its files.
    :raises SfEventsError: as `stage_batch` does, of what shows before it fetches.
    :raises StagingError: what the triggerer was told came after a `latest` that nobody can find any more.
    """
    found = await _look(request, client, area, open_store)
    if isinstance(found, Pending):
        return found
    pending = _judged(found, min_events)
    return (
        pending if pending.enough or told is None else _believed(pending, found, min_events, told)
    )


async def poke(
    request: BatchRequest,
    min_events: int,
    client: PubSubClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
    stopping: asyncio.Event,
) -> Pending:
    """Look, and where that is not enough listen, on a worker: for `idle_seconds`, or until it is known where the topic stands.

    What comes is staged. When the bus refuses the place, `replay_fallback` says how to go on, as when a task fetches.

    :param stopping: set from outside to end it early; what has been received by then is kept.
    :raises Stopped: `stopping` was set.
    :raises StagingError: something came, not enough, and cannot be staged: each poke would have it delivered anew.
    :raises SfEventsError: as `stage_batch` does.
    """
    while True:
        found = await _look(request, client, area, open_store)
        if isinstance(found, Pending):
            return found
        pending, plan = _judged(found, min_events), found.sight.plan
        if pending.enough or found.sight.held_by or not isinstance(plan, restart.Fetch):
            return pending
        try:
            heard = await _listen(request, min_events, client, area, found, plan, stopping)
        except SlotTaken as taken:  # he who has it hears what comes
            return replace(pending, why=str(taken))
        except ReplayIdRefused as refused:
            if plan.kept:
                return replace(pending, enough=True, why=f"{refused} What is staged lands first.")
            _fall_back(request, found, plan, refused)
            continue
        return _after_listening(found.coming, heard, min_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a worker has found out without listening."""

    coming: Coming
    sight: Sight
    position: Position
    store: PositionStore
    topic_folder: TopicFolder
    folder: BatchFolder


async def _look(
    request: BatchRequest,
    client: PubSubClient,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
) -> _Found | Pending:
    """Position and staging area; or at once what there is to say, without them."""
    session = await client.session()
    topic_folder = area.topic(session.org_id, request.consumer, request.topic)
    # Stores are read on this thread on purpose: Airflow's are bound to the task's own, and they answer at once.
    store = open_store(session.org_id)
    if past.may_own_a_batch(request):
        own = past.find_own(request, stores.read(store), topic_folder.manifests(), store.where)
        if own is not None:
            why = f"run {request.run.run} has batch {own.batch_id}, which is landed again"
            return Pending(coming=None, events=own.events, enough=True, why=why)
    await client.require_readable(request.topic)
    request = await fit(request, client, area, max_age_seconds=SETUP_SECONDS)
    try:
        position = open_position(request, session, topic_folder, store)
    except BatchClaimed as claimed:
        return Pending(coming=None, events=0, enough=False, why=str(claimed))
    coming = Coming.after(position, request.managed)
    return _Found(
        coming=coming,
        sight=await settled_sight(coming, area),
        position=position,
        store=store,
        topic_folder=topic_folder,
        folder=coming.folder(area),
    )


def _judged(found: _Found, min_events: int) -> Pending:
    seen = found.sight
    if seen.held_by:
        why = f"batch {found.coming.batch_id} is held by {seen.held_by}"
        return Pending(coming=found.coming, events=seen.events, enough=False, why=why)
    whole = not isinstance(seen.plan, restart.Fetch)
    enough = whole or seen.events >= min_events
    why = f"batch {found.coming.batch_id} is staged" if whole else ""
    return Pending(coming=found.coming, events=seen.events, enough=enough, why=why)


def _believed(pending: Pending, found: _Found, min_events: int, told: Heard) -> Pending:
    """Enough, where a triggerer has said so of this very batch, and this worker does not see it.

    :raises StagingError: it can neither be seen nor found again.
    """
    if told.batch_id != found.coming.batch_id or told.events < min_events or found.sight.held_by:
        return pending
    plan = found.sight.plan
    folder = found.folder.url
    if isinstance(plan, restart.Fetch) and plan.ask == LATEST:
        raise StagingError(
            f"{told.events} events came on {found.coming.topic} after `latest`, and this worker finds neither them nor the place in {folder}, "
            "where the triggerer staged them: they would be missed. Give triggerer and workers one staging area (`staging`, an object store or "
            "a folder that all mount); and to have them all the same, once: "
            f"`airflow sfevents position set {found.coming.consumer} {found.coming.topic} earliest`."
        )
    why = told.why
    if told.staged:
        why = (
            f"The triggerer has staged {told.events} events of batch {found.coming.batch_id}, of which this worker sees "
            f"{pending.events} in {folder}; they are delivered once more, and count a second time against the org's daily allowance. Give "
            "triggerer and workers one staging area (`staging`, an object store or a folder that all mount)."
        )
        log.warning("%s", why)
    return Pending(coming=found.coming, events=told.events, enough=True, staged=False, why=why)


async def _listen(
    request: BatchRequest,
    min_events: int,
    client: PubSubClient,
    area: StagingArea,
    found: _Found,
    plan: restart.Fetch,
    stopping: asyncio.Event,
) -> Heard:
    now = datetime.now(UTC)
    bounds = age.bounds(request, found.position, plan, found.topic_folder, now)
    heard = await listen(
        found.coming,
        plan,
        client,
        area,
        replace(bounds, max_events=min_events),
        run=request.run,
        stop=stopping,
        max_wait=bounds.idle_seconds,
    )
    if heard.ended_by == STOPPED:
        raise Stopped(
            f"The task was ended while it waited for {request.topic}; {heard.events} events stay staged for the next try."
        )
    if plan.ask == LATEST and not heard.events and not heard.held_by:
        await _require_learned(found, heard, bounds.max_seconds)
    return heard


async def _require_learned(found: _Found, heard: Heard, max_seconds: float) -> None:
    coming = found.coming
    anchor = await asyncio.to_thread(
        age.anchor_at, found.topic_folder, coming.epoch, coming.sequence - 1
    )
    if anchor is None:
        raise age.unlearned(coming.topic, heard.ended_by, max_seconds)


def _fall_back(
    request: BatchRequest, found: _Found, plan: restart.Fetch, refused: ReplayIdRefused
) -> None:
    """Write down where the coming batch goes on, as the user has chosen.

    :raises ReplayIdRefused: the user has not.
    :raises BatchClaimed: somebody is at work on the batch by now.
    """
    window = fallback.choose(
        found.position, plan, request.replay_fallback, refused, found.store.where
    )
    with found.folder.claim(Holder.here(request.run, window.at)) as claim:
        fallback.keep(window, found.folder, claim, request.topic)


def _after_listening(coming: Coming, heard: Heard, min_events: int) -> Pending:
    """:raises StagingError: something came that each poke would have delivered anew."""
    enough = heard.events >= min_events and not heard.held_by
    if not heard.staged and not enough:
        raise StagingError(
            f"{heard.why} {heard.events} of {min_events} events came so far, and each poke would have them delivered anew."
        )
    why = f"batch {coming.batch_id} is held by {heard.held_by}" if heard.held_by else heard.why
    return Pending(coming=coming, events=heard.events, enough=enough, staged=heard.staged, why=why)
