"""The position a batch comes after: read, checked against org, task and staging area, or begun.

A missing position is a first run only when the staging area knows of none: an epoch that began there was in the store first. Otherwise
somebody lost it, or another Airflow works with the same staging area, and starting again would skip or pay twice for what came meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflict
from airflow_provider_sfevents.positions import record, stores
from airflow_provider_sfevents.pubsub.start import check_start
from airflow_provider_sfevents.staging.holders import Holder
from airflow_provider_sfevents.staging.manifest import LossWindow
from airflow_provider_sfevents.staging.marks import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.manifest import Run

log = logging.getLogger(__name__)


def open_position(
    request: BatchRequest, session: Session, folder: TopicFolder, store: PositionStore
) -> Position:
    """Where the next batch begins.

    :raises PositionConflict: of another org or task, missing or old while later batches have landed.
    :raises ConfigurationError: what is stored is no position, or `initial_replay` no start.
    """
    # In this order: a batch that is committed in between must not look like one that landed without its position.
    landed = newest_landed(folder)
    position = stores.read(store)
    if position is None:
        return _begin(request, session, folder, store)
    record.check_org(position, session.org_id, session.instance_url, store.where)
    if request.owns:
        record.check_owner(position, request.run, store.where)
    refuse_stale(position, landed, store.where)
    refuse_second_in_run(position, request, store.where)
    return position


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The newest batch of a consumer and topic that has a receipt.

    :param end: its last replay id, hex; empty where the manifest is gone.
    :param is_forgotten: somebody forgot the position on purpose, after that batch's epoch had begun.
    :param older_epochs: those that began before that batch's.
    """

    epoch: str
    sequence: int
    end: str = ""
    is_forgotten: bool = False
    older_epochs: frozenset[str] = frozenset()


def newest_landed(folder: TopicFolder) -> Landed | None:
    """What the staging area knows of the newest batch that landed; None: nothing ever did."""
    newest = folder.newest_receipt()
    if newest is None:
        return None
    batch = folder.batch(*newest)
    manifest, receipt = batch.read_manifest(), batch.read_receipt()
    epochs = [origin.epoch for origin in folder.origins()]
    older = epochs[: epochs.index(newest[0])] if newest[0] in epochs else []
    return Landed(
        epoch=newest[0],
        sequence=newest[1],
        end=restart.as_landed(manifest, receipt).end if manifest and receipt else "",
        is_forgotten=not folder.after_forgetting(newest[0]),
        older_epochs=frozenset(older),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An epoch that the staging area knows of.

    :param by: the run that began it.
    """

    epoch: str
    at: str
    by: Run


def begun_epochs(folder: TopicFolder) -> list[Begun]:
    """Epochs begun since the position was last forgotten on purpose, oldest first."""
    forgotten = folder.forgotten_at()
    return [
        Begun(
            epoch=origin.epoch,
            at=origin.created_at,
            by=record.Position.from_json(
                origin.position, f"The origin of epoch {origin.epoch}"
            ).committed_by,
        )
        for origin in folder.origins()
        if origin.created_at > forgotten
    ]


def refuse_lost(
    landed: Landed | None, begun: Sequence[Begun], request: BatchRequest, where: str
) -> None:
    """Tell a lost position from a first run.

    :raises PositionConflict: there is no position, and yet a batch has landed, or an epoch has begun.
    """
    if landed is not None and not landed.is_forgotten:
        found = f"batch {landed.epoch}-{landed.sequence} of this consumer and topic has landed"
        back = f"Put it back where that batch ended: `{_command('set', request)} {landed.end or '<replay id>'}`; or begin"
    elif begun:
        last = begun[-1]
        found = f"run {last.by.run or 'by hand'} of {last.by.dag}.{last.by.task} has begun epoch {last.epoch} at {last.at}"
        back = "Nothing of it has landed: begin"
    else:
        return
    raise PositionConflict(
        f"{where} is missing, but {found}: this is no first run. Somebody deleted or purged it, renamed the asset it was kept on, or "
        f"another Airflow works with the same staging area, which then needs a staging area or a `consumer` of its own. {back} anew at "
        f"{request.initial_replay!r}: `{_command('forget', request)}`."
    )


def _command(verb: str, request: BatchRequest) -> str:
    return f"airflow sfevents position {verb} {request.consumer} {request.topic}"


def refuse_stale(position: Position, landed: Landed | None, where: str) -> None:
    """Refuse a position of long ago.

    :raises PositionConflict: more has landed than the position, and the one batch after it, can account for.
    """
    if landed is None:
        return
    if landed.epoch == position.epoch:
        is_stale = landed.sequence > position.sequence + 1
    else:
        is_stale = position.epoch in landed.older_epochs
    if not is_stale:
        return
    raise PositionConflict(
        f"{where} stands at batch {position.epoch}-{position.sequence}, but batch {landed.epoch}-{landed.sequence} has landed: an older "
        "position was put in its place (a backup, an environment variable), or another Airflow works with the same staging area. "
        f"Put the newer one back: `airflow sfevents position set {position.consumer} {position.topic} {landed.end or '<replay id>'}`, "
        "as that batch ended there."
    )


def refuse_second_in_run(position: Position, request: BatchRequest, where: str) -> None:
    """:raises PositionConflict: another mapped instance of this task has committed to the same position in this very run."""
    by, run = position.committed_by, request.run
    if (
        position.sequence
        and run.run
        and (by.dag, by.run, by.task) == (run.dag, run.run, run.task)
        and by.map_index != run.map_index
    ):
        raise PositionConflict(
            f"{where}: mapped task {run.task} has topic {request.topic} twice, at map index {by.map_index} and {run.map_index}. "
            "Name each topic once, or use a task of its own with another `consumer`."
        )


def _begin(
    request: BatchRequest, session: Session, folder: TopicFolder, store: PositionStore
) -> Position:
    """Write the position at sequence 0, before the first event is asked for.

    Of two first runs at once one begins and the other gives way. One that takes over from another who died, or only seemed to,
    begins the very same epoch: should the other wake up, it writes what is there already.

    :raises BatchClaimed: another first run is about to begin.
    """
    start = check_start(request.initial_replay)
    holder = Holder.here(request.run, datetime.now(UTC).isoformat())
    with folder.claim_beginning(holder) as claim:
        position = stores.read(store)
        if position is not None:  # another has just begun
            return position
        refuse_lost(newest_landed(folder), begun_epochs(folder), request, store.where)
        position = _first_position(request, session, folder, start)
        claim.check()
        stores.write(store, position)
        steps.reached(steps.POSITION_BEGUN, position.epoch)
        write_origin(folder, position)
        steps.reached(steps.ORIGIN_WRITTEN, position.epoch)
    log.info(
        "First run of %s for consumer %s: starting at %s.", request.topic, request.consumer, start
    )
    return position


def _first_position(
    request: BatchRequest, session: Session, folder: TopicFolder, start: str
) -> Position:
    """The position at sequence 0, in an epoch of which there is only one, whoever gets to write it."""
    first = record.begin(
        org_id=session.org_id,
        instance_url=session.instance_url,
        topic=request.topic,
        consumer=request.consumer,
        start=start,
        at=datetime.now(UTC).isoformat(),
        by=request.run,
        losses=_forgotten_losses(folder.forgotten_at(), start),
        owns=request.owns,
    )
    try:
        said = record.Position.from_json(folder.begin_once(first.to_json()), "The beginning")
    except ConfigurationError:  # half of one, on a store that keeps what a killed task had written
        folder.begin_anew(first.to_json())
        return first
    return replace(said, replay_id=start)  # the DAG's `initial_replay` may have been changed since


def write_origin(folder: TopicFolder, position: Position) -> None:
    """Say in the staging area how the position's epoch began; a second time changes nothing."""
    folder.write_origin(
        Origin(epoch=position.epoch, created_at=position.committed_at, position=position.to_json())
    )


def _forgotten_losses(forgotten: str, start: str) -> tuple[LossWindow, ...]:
    """What lies between the place that was forgotten and where the first run after it starts."""
    if not forgotten:
        return ()
    return (
        LossWindow(after="", start=start, at=forgotten, why="the position was forgotten by hand"),
    )
