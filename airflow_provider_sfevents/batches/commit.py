"""Commit the position of a landed batch: the last step, and the only one that moves past events."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    LeaseGoneError,
    PositionConflictError,
    SfEventsError,
    StagingError,
    TransportError,
)
from airflow_provider_sfevents.positions import history, stores
from airflow_provider_sfevents.positions.record import advance, is_committed, is_past
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.reconnect import pause_seconds
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.sweeping import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt, Run

log = logging.getLogger(__name__)

COMMIT_SECONDS = 120.0
"""Seconds for which a commit is retried after a landing while the position store is unavailable."""

CLOCK = Clock()


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def take_staged(
    manifest: Manifest,
    topic_folder: TopicFolder,
    folder: BatchFolder,
    store: PositionStore,
    run: Run,
    staging_id: str,
    *,
    reused: bool,
    rerun: bool,
) -> Staged:
    """Take the lease of a batch that another task has staged, in order to commit it.

    :param reused: that task reused a batch that was staged already.
    :param rerun: that task was a rerun, which landed its own batch again.
    :raises LeaseHeldError: another process holds the lease.
    """
    lease = folder.take_lease(LeaseHolder.here(run, datetime.now(UTC).isoformat()))
    return Staged(
        manifest=manifest,
        topic_folder=topic_folder,
        folder=folder,
        lease=lease,
        store=store,
        staging_id=staging_id,
        reused=reused,
        rerun=rerun,
    )


def check_before_landing(staged: Staged) -> None:
    """Check, right before Spark starts, that the lease is held and the batch follows the position.

    :raises LeaseHeldError: another process has taken over the lease.
    :raises PositionConflictError: the position was moved or reset in between.
    """
    staged.lease.check()
    if staged.rerun:
        return
    manifest, position = staged.manifest, stores.read(staged.store)
    if position is None or (position.epoch, position.batch_number + 1, position.replay_id) != (
        manifest.epoch,
        manifest.batch_number,
        manifest.position_start,
    ):
        stands = "is gone"
        if position is not None:
            at = f"batch {position.epoch}-{position.batch_number}"
            stands = f"is at {at} ({position.replay_id}) by now"
        raise PositionConflictError(
            f"Batch {manifest.batch_id} was staged after {manifest.position_start}, but "
            f"{staged.store.where} {stands}: it was moved or reset meanwhile. Nothing is landed; "
            "the next run continues from the position."
        )


def commit_batch(
    staged: Staged,
    run: Run,
    keep_batches: int,
    *,
    keep_for: timedelta = NO_TIME,
    commit_seconds: float = COMMIT_SECONDS,
    wait: Callable[[float], bool] = _sleep,
    clock: Clock = CLOCK,
) -> Receipt:
    """Move the position to the batch's end, once; keep its history; sweep old batches. Blocks.

    A second call changes nothing. A store or staging area that does not answer is retried for
    `commit_seconds`. The batch has landed, and a run that failed now would look as if it had not.

    :param keep_for: as of `TopicFolder.sweep`.
    :param commit_seconds: as `COMMIT_SECONDS`.
    :param wait: waits that many seconds, or less if the task is ending; returns whether it is
        ending. If it is, the next try commits.
    :raises NotLandedError: the receipt is missing or does not add up.
    :raises TransportError: the store did not answer in time; the next try commits without a
        delivery.
    :raises StagingError: likewise for the staging area.
    :raises LeaseHeldError: another process has taken over the lease.
    :raises PositionConflictError: the batch does not follow the position.
    """
    receipt = _commit_in_time(staged, run, commit_seconds, wait, clock)
    if not staged.rerun:
        _keep_history(staged)
        _sweep(staged, keep_batches, keep_for)
        steps.reached(steps.SWEPT, staged.manifest.batch_id)
    return receipt


def _commit_in_time(
    staged: Staged,
    run: Run,
    commit_seconds: float,
    wait: Callable[[float], bool],
    clock: Clock,
) -> Receipt:
    give_up_at = clock.monotonic() + commit_seconds
    tries = 0
    while True:
        try:
            return _commit(staged, run)
        except LeaseGoneError:
            raise
        except (TransportError, StagingError) as error:
            pause = pause_seconds(tries, clock.chance())
            if clock.monotonic() + pause > give_up_at:
                raise
            log.warning(
                "Batch %s has landed; committing the position again in %.0f s: %s",
                staged.manifest.batch_id,
                pause,
                error,
            )
            if wait(pause):
                raise
            tries += 1


def _commit(staged: Staged, run: Run) -> Receipt:
    receipt = recovery.require_landed(
        staged.manifest, staged.folder.read_receipt(), staged.folder.url
    )
    manifest = recovery.as_landed(staged.manifest, receipt)
    if manifest != staged.manifest:
        log.warning(
            "Batch %s has landed from another staging area, with %s up to %s, and that form "
            "counts. Events that are staged here beyond its end are delivered again with the next "
            "batch. Give all workers one staging area.",
            manifest.batch_id,
            counted(manifest.events, "event"),
            manifest.end,
        )
    position = stores.read(staged.store)
    if staged.rerun or (position is not None and is_past(position, manifest)):
        log.info("Batch %s was committed before; the position stays.", manifest.batch_id)
        return receipt
    if position is None:
        whose = Whose.of(staged.store, manifest.consumer, manifest.topic)
        raise PositionConflictError(
            f"The position of {manifest.topic} for consumer {manifest.consumer!r} is gone from "
            f"{staged.store.where}, and batch {manifest.batch_id} has landed. Put it back: "
            f"{whose.command('set', manifest.end)}, as the batch that has landed ends there."
        )
    if not is_committed(position, manifest):
        extra_deliveries = staged.extra_deliveries()
        staged.lease.check()
        at = datetime.now(UTC).isoformat()
        steps.reached(steps.COMMIT_NEXT, manifest.batch_id)
        moved = advance(
            position,
            manifest,
            committed_at=at,
            committed_by=run,
            staging_id=staged.staging_id,
            receipt=receipt,
            extra_deliveries=extra_deliveries,
        )
        stores.write(staged.store, moved)
        steps.reached(steps.COMMITTED, manifest.batch_id)
        log.info(
            "Committed the position of %s: batch number %d, after replay id %s.",
            manifest.topic,
            manifest.batch_number,
            manifest.end,
        )
    return receipt


def _keep_history(staged: Staged) -> None:
    """Add the last commits to the history, if it is time; an error only warns."""
    if not history.is_due(staged.manifest.batch_number):
        return
    try:
        position = stores.read(staged.store)
    except SfEventsError as error:
        log.warning("The position could not be read for the history of batches: %s", error)
        return
    if position is not None:
        history.keep(staged.topic_folder, position)


def _sweep(staged: Staged, keep_batches: int, keep_for: timedelta) -> None:
    """Sweep old batches; an error only warns, because the batch is committed already."""
    try:
        for batch_id in staged.topic_folder.sweep(
            keep_batches, staged.manifest.epoch, keep_for=keep_for
        ):
            log.info("Old batch %s is swept.", batch_id)
    except StagingError as error:
        log.warning("Old batches could not be swept: %s", error)
