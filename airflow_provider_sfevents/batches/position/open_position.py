"""Open a position: read it and check it against org, task and staging area, or begin it.

1. A missing position is a first run only if the staging area has no epoch: an epoch is in the
   store before anything of it is staged. Otherwise the position was lost, or another Airflow works
   with the same staging area; starting again would skip events, or deliver them twice.
2. The first record of an epoch holds its staging area's id and a replay point that means the same
   for every task. `latest` does not, so an epoch at `latest` is a draft, in no store, until its
   first keepalive or event gives it a replay id (`Pin`). Only then is the first event staged.
3. The position records the staging area. A task that works with another one (a pod's empty disk,
   another bucket) continues from the position, warns of the cost, and counts the events that are
   delivered again. It is refused if only the other area holds an event that the bus does not
   deliver again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.position.position_writes import write_first
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.positions import ownership, record, stores
from airflow_provider_sfevents.positions.record_text import Whose, is_epoch
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import LossWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.manifest import Run
    from airflow_provider_sfevents.staging.sidecar_files import Forgotten

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A position as a task finds it.

    :param is_draft: it is in no store: an epoch at `latest`, which is written once it is pinned.
    """

    position: Position
    is_draft: bool = False

    @property
    def stored(self) -> Position | None:
        """The position in the store; None: the store has none."""
        return None if self.is_draft else self.position


def open_position(
    request: BatchRequest,
    session: Session,
    folder: TopicFolder,
    store: PositionStore,
    staging_id: str,
) -> Opened:
    """Return the position that the next batch follows; an epoch at `latest` is a draft (`Pin`).

    :param staging_id: of the task's staging area; empty if it cannot be written.
    :raises PositionConflictError: the position is of another org or task; it is missing or old
        while later batches have landed; or another staging area alone holds one of its events.
    :raises ConfigurationError: the stored value is no position, or `initial_replay` no replay
        point.
    :raises LeaseHeldError: another task is about to begin the position.
    """
    position = read_checked(request, session, folder, store, staging_id)
    if position is None:
        return _begin(request, session, folder, store, staging_id)
    by_task = position.committed_by.dag and not position.batch_number
    if by_task and request.initial_replay != position.initial_replay:
        log.warning(
            "%s was begun with initial_replay=%r, which counts; this task says %r. Give the "
            "sensor, the watcher and the task that fetches the same value.",
            store.where,
            position.initial_replay,
            request.initial_replay,
        )
    return Opened(position=position)


def read_checked(
    request: BatchRequest,
    session: Session,
    folder: TopicFolder,
    store: PositionStore,
    staging_id: str,
) -> Position | None:
    """Read the position and check it; None: the store has none."""
    # Receipts first: a batch that is committed in between must not look like a lost position.
    landed = newest_landed(folder)
    position = stores.read(store)
    if position is None:
        return None
    ownership.check_org(position, session.org_id, session.instance_url, store.where)
    ownership.check_transport(position, request.transport, store)
    if request.owns:
        ownership.check_owner(position, request.run, store.where)
    refuse_stale(position, landed, store)
    refuse_second_in_run(position, request, store.where)
    refuse_elsewhere(position, staging_id, store)
    return position


def opened(
    request: BatchRequest,
    session: Session,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
) -> Opened:
    """Read the position, or begin it; at `latest` it is a draft. Blocks.

    :raises LeaseHeldError: another task is about to begin the position.
    :raises PositionConflictError: position, staging area and org contradict each other.
    """
    folder = area.topic(session.org_id, request.consumer, request.topic)
    store = open_store(session.org_id)
    return open_position(request, session, folder, store, area.known_id())


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The newest batch of a consumer and topic that has a receipt.

    :param batch_number: number of the batch.
    :param end: its last replay id, hex; empty if the manifest is gone.
    :param is_forgotten: a user forgot the position after that batch's epoch had begun.
    :param older_epochs: epochs before the batch's epoch.
    """

    epoch: str
    batch_number: int
    end: str = ""
    is_forgotten: bool = False
    older_epochs: frozenset[str] = frozenset()


def newest_landed(folder: TopicFolder) -> Landed | None:
    """Return the newest landed batch that the staging area knows of; None: no batch has landed."""
    newest = folder.newest_receipt()
    if newest is None:
        return None
    batch = folder.batch(*newest)
    manifest, receipt = batch.read_manifest(), batch.read_receipt()
    return Landed(
        epoch=newest[0],
        batch_number=newest[1],
        end=recovery.as_landed(manifest, receipt).end if manifest and receipt else "",
        is_forgotten=not folder.after_forgetting(newest[0]),
        older_epochs=folder.ancestors(newest[0]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    """An epoch that the staging area knows of.

    :param at: time at which it began, ISO-8601.
    :param by: the run that began it.
    """

    epoch: str
    at: str
    by: Run


def begun_epochs(folder: TopicFolder) -> list[EpochStart]:
    """Return the epochs begun since the position was last forgotten on purpose, oldest first."""
    forgotten = folder.forgotten()
    return [
        EpochStart(
            epoch=origin.epoch,
            at=origin.created_at,
            by=record.Position.from_json(
                origin.position, f"The origin of epoch {origin.epoch}"
            ).committed_by,
        )
        for origin in folder.origins()
        if forgotten is None or origin.epoch not in forgotten.epochs
    ]


def refuse_lost(
    landed: Landed | None,
    begun: Sequence[EpochStart],
    request: BatchRequest,
    store: PositionStore,
) -> None:
    """Refuse a missing position unless this is a first run.

    :raises PositionConflictError: there is no position, although a batch has landed or an epoch has
        begun.
    """
    whose = Whose.of(store, request.consumer, request.topic)
    if landed is not None and not landed.is_forgotten:
        found = f"batch {landed.epoch}-{landed.batch_number} of this consumer and topic has landed"
        back = (
            "Put it back where that batch ended: "
            f"{whose.command('set', landed.end or '<replay id>')}; or begin"
        )
    elif begun:
        last = begun[-1]
        found = (
            f"run {last.by.run or 'by hand'} of {last.by.dag}.{last.by.task} has begun epoch "
            f"{last.epoch} at {last.at}"
        )
        back = "Nothing of it has landed: begin"
    else:
        return
    raise PositionConflictError(
        f"{store.where} is missing, but {found}: this is no first run. It was deleted or purged, "
        "the asset it was kept on was renamed, or another Airflow works with the same staging "
        f"area, which then needs a staging area or a `consumer` of its own. {back} anew at "
        f"{request.initial_replay!r}: {whose.command('forget')}."
    )


def refuse_stale(position: Position, landed: Landed | None, store: PositionStore) -> None:
    """Refuse a position that was replaced by an older one.

    :raises PositionConflictError: a batch has landed that is not the position's, nor the
        one after it.
    """
    if landed is None:
        return
    if landed.epoch == position.epoch:
        is_stale = landed.batch_number > position.batch_number + 1
    else:
        is_stale = position.epoch in landed.older_epochs
    if not is_stale:
        return
    whose = Whose.of(store, position.consumer, position.topic)
    back = whose.command("set", landed.end or "<replay id>")
    raise PositionConflictError(
        f"{store.where} is at batch {position.epoch}-{position.batch_number}, but batch "
        f"{landed.epoch}-{landed.batch_number} has landed: an older position was put in its place "
        "(a backup, an environment variable), or another Airflow works with the same staging area. "
        f"Put the newer one back: {back}, as that batch ended there."
    )


def refuse_second_in_run(position: Position, request: BatchRequest, where: str) -> None:
    """Refuse a topic that two mapped instances of a task read in one run.

    :raises PositionConflictError: another mapped instance has committed to this position in
        this run.
    """
    by, run = position.committed_by, request.run
    if (
        position.batch_number
        and run.run
        and (by.dag, by.run, by.task) == (run.dag, run.run, run.task)
        and by.map_index != run.map_index
    ):
        raise PositionConflictError(
            f"{where}: mapped task {run.task} has topic {request.topic} twice, at map index "
            f"{by.map_index} and {run.map_index}. Name each topic once, or use a task of its own "
            "with another `consumer`."
        )


def refuse_elsewhere(position: Position, staging_id: str, store: PositionStore) -> None:
    """Refuse a position whose first event is staged in another staging area alone.

    An event pinned this position's `latest`, and the bus delivers only later events.

    :param staging_id: of the task's staging area; empty if that is not known.
    :raises PositionConflictError: naming both remedies.
    """
    if position.pinned_by != record.EVENT or not staging_id or staging_id == position.staging_id:
        return
    whose = Whose.of(store, position.consumer, position.topic)
    command = whose.command("set", position.start.to_text())
    raise PositionConflictError(
        f"{store.where} began at 'latest' with event {position.start}, which is staged in staging "
        f"area {position.staging_id} and has not landed; this task works with staging area "
        f"{staging_id}, and the bus delivers only what comes after that event. Give all workers "
        "one staging area (`staging`, an object store or a folder that all mount) and keep that "
        f"one; or, to do without that one event: {command}."
    )


def events_elsewhere(position: Position, staging_id: str) -> int:
    """Return how many events of the next batch a wait has staged elsewhere, as far as known."""
    return position.staged_events if position.staged_in not in ("", staging_id) else 0


def warn_of_other_area(position: Position, staging_id: str, where: str) -> None:
    """Warn of the cost of a staging area that is not the position's."""
    if not staging_id or (
        position.staging_id in ("", staging_id) and not events_elsewhere(position, staging_id)
    ):
        return
    events = events_elsewhere(position, staging_id)
    counted = f"at least {events} of them" if events else "if there are any"
    log.warning(
        "%s was last worked on with staging area %s, and this task works with %s. Events of batch "
        "%s-%d that are staged there are delivered once more, %s, and count a second time against "
        "the org's daily allowance. Give all workers one staging area (`staging`, an object store "
        "or a folder that all mount).",
        where,
        position.staged_in if events else position.staging_id,
        staging_id,
        position.epoch,
        position.batch_number + 1,
        counted,
    )


def _begin(
    request: BatchRequest,
    session: Session,
    folder: TopicFolder,
    store: PositionStore,
    staging_id: str,
) -> Opened:
    """Write the position with batch number 0 before an event is requested; draft it at `latest`.

    If two first runs start at once, one begins the position and the other gives way. A run that
    takes over from one that died, or only seemed to, begins the same epoch, so that no event is in
    two of them if the other wakes up.

    :raises LeaseHeldError: another first run is about to begin.
    """
    start = ReplayPoint.from_text(request.initial_replay).to_text()
    holder = LeaseHolder.here(request.run, datetime.now(UTC).isoformat())
    with folder.take_beginning_lease(holder) as lease:
        position = stores.read(store)
        if position is not None:  # another task has just begun it
            return Opened(position=position)
        refuse_lost(newest_landed(folder), begun_epochs(folder), request, store)
        position = _first_position(request, session, folder, start, staging_id)
        if position.is_pinned:
            lease.check()
            write_first(position, store, folder)
    return Opened(position=position, is_draft=not position.is_pinned)


def _first_position(
    request: BatchRequest, session: Session, folder: TopicFolder, start: str, staging_id: str
) -> Position:
    """Build the position with batch number 0.

    Its epoch is the same for every task of this staging area.
    """
    forgotten = folder.forgotten()
    first = record.begin(
        org_id=session.org_id,
        instance_url=session.instance_url,
        topic=request.topic,
        consumer=request.consumer,
        start=start,
        at=datetime.now(UTC).isoformat(),
        by=request.run,
        staging_id=staging_id,
        previous_epoch=next(filter(is_epoch, reversed(forgotten.epochs if forgotten else [])), ""),
        losses=_forgotten_losses(forgotten, start),
        owns=request.owns,
        transport=request.transport,
    )
    first = replace(first, previous_batch_number=forgotten.batch_number if forgotten else 0)
    try:
        said = record.Position.from_json(folder.begin_once(first.to_json()), "The beginning")
    except ConfigurationError:  # half a record, on a store that keeps what a killed task wrote
        folder.begin_anew(first.to_json())
        return first
    # The epoch alone is kept: the DAG may have changed since, its task been renamed.
    return replace(first, epoch=said.epoch, committed_at=said.committed_at)


def _forgotten_losses(forgotten: Forgotten | None, start: str) -> tuple[LossWindow, ...]:
    """Return the loss window between the forgotten position and the start of the next first run."""
    if forgotten is None:
        return ()
    why = "the position was forgotten by hand"
    window = LossWindow(
        after="", start=start, at=forgotten.at, why=why, after_event_at=forgotten.last_event_at
    )
    return (window,)
