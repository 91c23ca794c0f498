"""From a landed batch to a moved position. The last step, and the only one that moves anything."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import PositionConflict, StagingError
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.positions.record import advance, is_committed, is_past
from airflow_provider_sfevents.staging.holders import Holder

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt, Run

log = logging.getLogger(__name__)


def take_staged(
    manifest: Manifest,
    topic_folder: TopicFolder,
    folder: BatchFolder,
    store: PositionStore,
    run: Run,
    *,
    adopted: bool,
    again: bool,
) -> Staged:
    """Claim a batch that another task has staged, so as to commit it.

    :param adopted: that task had found it staged, and fetched nothing.
    :param again: that task is of the past, and landed its own batch again.
    :raises BatchClaimed: somebody else is at work on it.
    """
    claim = folder.claim(Holder.here(run, datetime.now(UTC).isoformat()))
    return Staged(
        manifest=manifest,
        topic_folder=topic_folder,
        folder=folder,
        claim=claim,
        store=store,
        adopted=adopted,
        again=again,
    )


def check_before_landing(staged: Staged) -> None:
    """Make sure, right before Spark is launched, that the batch is ours still and the one after the position.

    :raises BatchClaimed: somebody took this process for dead and holds the batch now.
    :raises PositionConflict: the position was moved or reset meanwhile.
    """
    staged.claim.check()
    if staged.again:
        return
    manifest, position = staged.manifest, stores.read(staged.store)
    if position is None or (position.epoch, position.sequence + 1) != (
        manifest.epoch,
        manifest.sequence,
    ):
        stands = f"{position.epoch}-{position.sequence}" if position else "nowhere"
        raise PositionConflict(
            f"Batch {manifest.batch_id} was staged, but {staged.store.where} stands at {stands} by now: somebody moved or reset it "
            "meanwhile. Nothing is landed; the next run goes on from where the position is."
        )


def commit_batch(staged: Staged, run: Run, keep_batches: int) -> Receipt:
    """Move the position to the batch's end, once; a second time changes nothing. Old batches are swept.

    :raises NotLanded: without a receipt that adds up.
    :raises BatchClaimed: somebody took this process for dead and holds the batch now.
    :raises PositionConflict: the position is not where the batch was fetched for.
    """
    receipt = restart.require_landed(
        staged.manifest, staged.folder.read_receipt(), staged.folder.url
    )
    manifest = restart.as_landed(staged.manifest, receipt)
    if manifest != staged.manifest:
        log.warning(
            "Batch %s has landed from another staging area, with %d events up to %s; that is what counts, and what was staged here "
            "beyond it is fetched again with the next batch. Give all workers one staging area.",
            manifest.batch_id,
            manifest.events,
            manifest.end,
        )
    position = stores.read(staged.store)
    if staged.again or (position is not None and is_past(position, manifest)):
        log.info("Batch %s was committed before; the position stays.", manifest.batch_id)
        return receipt
    if position is None:
        raise PositionConflict(
            f"The position of {manifest.topic} for consumer {manifest.consumer!r} is gone from {staged.store.where}, and batch "
            f"{manifest.batch_id} has landed. Put it back: `airflow sfevents position set {manifest.consumer} {manifest.topic} "
            f"{manifest.end}`, as the batch that has landed ends there."
        )
    if not is_committed(position, manifest):
        staged.claim.check()
        at = datetime.now(UTC).isoformat()
        steps.reached(steps.COMMIT_NEXT, manifest.batch_id)
        stores.write(staged.store, advance(position, manifest, committed_at=at, committed_by=run))
        steps.reached(steps.COMMITTED, manifest.batch_id)
        log.info(
            "Position of %s: sequence %d, after %s.",
            manifest.topic,
            manifest.sequence,
            manifest.end,
        )
    _sweep(staged.topic_folder, keep_batches)
    steps.reached(steps.SWEPT, manifest.batch_id)
    return receipt


def _sweep(folder: TopicFolder, keep_batches: int) -> None:
    """Housekeeping; the batch is committed, whatever becomes of this."""
    try:
        for batch_id in folder.sweep(keep_batches):
            log.info("Old batch %s is swept.", batch_id)
    except StagingError as error:
        log.warning("Old batches could not be swept: %s", error)
