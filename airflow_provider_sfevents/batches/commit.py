"""From a landed batch to a moved position. The last step, and the only one that moves anything."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import PositionConflict, StagingError
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.positions.record import advance, is_committed
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
) -> Staged:
    """Claim a batch that another task has staged, so as to commit it.

    :param adopted: that task had found it staged, and fetched nothing.
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
    )


def commit_batch(staged: Staged, run: Run, keep_batches: int) -> Receipt:
    """Move the position to the batch's end, once; a second time changes nothing. Old batches are swept.

    :raises NotLanded: without a receipt that adds up.
    :raises BatchClaimed: somebody took this process for dead and holds the batch now.
    :raises PositionConflict: the position is not where the batch was fetched for.
    """
    manifest = staged.manifest
    receipt = restart.require_landed(manifest, staged.folder.read_receipt(), staged.folder.url)
    position = stores.read(staged.store)
    if position is None:
        raise PositionConflict(
            f"The position of {manifest.topic} for consumer {manifest.consumer!r} is gone from {staged.store.where}, and batch "
            f"{manifest.batch_id} has landed. Put the position back as it was before the batch, or run the next run to "
            "be told what to do."
        )
    if not is_committed(position, manifest):
        staged.claim.check()
        at = datetime.now(UTC).isoformat()
        stores.write(staged.store, advance(position, manifest, committed_at=at, committed_by=run))
        log.info(
            "Position of %s: sequence %d, after %s.",
            manifest.topic,
            manifest.sequence,
            manifest.end,
        )
    _sweep(staged.topic_folder, keep_batches)
    return receipt


def _sweep(folder: TopicFolder, keep_batches: int) -> None:
    """Housekeeping; the batch is committed, whatever becomes of this."""
    try:
        for batch_id in folder.sweep(keep_batches):
            log.info("Old batch %s is swept.", batch_id)
    except StagingError as error:
        log.warning("Old batches could not be swept: %s", error)
