"""Writes of a position before its commit: first record, pin, loss window, keepalive, wait.

No store has a compare-and-swap. So each write happens under the lease of the next batch, follows
a read that finds the record as this task knows it, and is read back (`stores.write`). A task that
finds another record gives way.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import LeaseHeldError, PositionConflictError
from airflow_provider_sfevents.positions import record, stores
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.staging.sidecar_files import Origin

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.leases import Lease

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Replaces `latest` by a replay id in the position, once, before the first event is staged.

    :param draft: the position to write, without the replay id.
    :param stored: the record that the store must still hold; None: nothing.
    """

    draft: Position
    stored: Position | None
    store: PositionStore
    folder: TopicFolder
    staging_id: str

    def record(self, replay_id: str, by: str, lease: Lease) -> Position:
        """Write the position and read it back. Blocks.

        :param replay_id: hex, of the first keepalive or event.
        :param by: `record.KEEPALIVE` or `record.EVENT`.
        :param lease: of the next batch.
        :raises LeaseHeldError: another task holds the batch, or has begun or pinned the position.
        """
        lease.check()
        position = record.pin(self.draft, replay_id, by=by, staging_id=self.staging_id)
        if self.stored is not None:
            return keep_loss(self.store, self.stored, position, lease)
        self.require_unchanged()
        write_first(position, self.store, self.folder)
        return position

    def require_unchanged(self) -> None:
        """Check that the store still holds `stored`. Blocks.

        :raises LeaseHeldError: another task has begun the position, or pinned it.
        """
        require_unchanged(self.store, self.stored)


def write_first(position: Position, store: PositionStore, folder: TopicFolder) -> None:
    """Write the first record of an epoch, read it back, and record the epoch's origin.

    :raises LeaseHeldError: another task has begun the position at the same moment.
    """
    try:
        stores.write(store, position)
    except PositionConflictError as conflict:
        found = stores.read(store)
        if found is None or (found.epoch, found.committed_by) == (
            position.epoch,
            position.committed_by,
        ):
            raise
        by = found.committed_by
        raise LeaseHeldError(
            f"{store.where} was begun at the same moment by "
            f"{f'task {by.dag}.{by.task} of run {by.run}' if by.dag else 'a command'} (epoch "
            f"{found.epoch}), and that record counts. This task gives way and has staged nothing."
        ) from conflict
    steps.reached(steps.POSITION_BEGUN, position.epoch)
    write_origin(folder, position)
    steps.reached(steps.ORIGIN_WRITTEN, position.epoch)
    log.info(
        "First run of %s for consumer %s: starting at %s%s.",
        position.topic,
        position.consumer,
        position.initial_replay,
        f", which is {position.pinned_by} {position.start}" if position.pinned_by else "",
    )


def keep_loss(store: PositionStore, before: Position, after: Position, lease: Lease) -> Position:
    """Write a position that has a new loss window, or whose `latest` is pinned now. Blocks.

    :param lease: of the next batch.
    :raises LeaseHeldError: another task holds the batch, or has written the position.
    """
    lease.check()
    steps.reached(steps.FALLBACK_NEXT, after.topic)
    _write_moved(store, before, after)
    steps.reached(steps.FALLBACK_WRITTEN, after.topic)
    loss = after.loss
    if loss is not None and not loss.after:
        log.warning(
            "LOSS WINDOW on %s: %s This run continues after that event. To fetch it, and all that "
            "the bus still holds before it: %s; events that have landed do not land again.",
            after.topic,
            loss.why,
            Whose.of(store, after.consumer, after.topic).command("set", "earliest"),
        )
    elif loss is not None:
        log.warning(
            "LOSS WINDOW on %s: the bus refused replay id %s (last event %s). Continuing at %r, "
            "as replay_fallback says. Events published in between and no longer kept are lost; "
            "events that have landed do not land again. %s",
            after.topic,
            loss.after,
            loss.after_event_at or "at an unknown time",
            loss.start,
            loss.why,
        )
    return after


def keep_keepalive(store: PositionStore, position: Position, replay_id: str, lease: Lease) -> None:
    """Let the next batch begin at a keepalive, so that a quiet topic's replay id stays valid.

    Blocks. Call it only if nothing of the batch is staged: a staged event comes before the
    keepalive.

    :raises LeaseHeldError: another task holds the batch, or has written the position.
    """
    lease.check()
    at = datetime.now(UTC).isoformat()
    _write_moved(store, position, record.move_on(position, replay_id, at))


def take_area(store: PositionStore, position: Position, staging_id: str, lease: Lease) -> Position:
    """Record this task's staging area in the position before a managed subscription's commit.

    Blocks. Salesforce then keeps a replay id of events that are staged here alone. A task with
    another area must know that the managed subscription may start beyond what it can see.

    :raises LeaseHeldError: another task holds the batch, or has written the position.
    """
    if position.staging_id == staging_id:
        require_unchanged(store, position)
        return position
    lease.check()
    taken = record.work_in(position, staging_id)
    _write_moved(store, position, taken)
    return taken


def note_wait(
    store: PositionStore, epoch: str, batch_number: int, staging_id: str, events: int, lease: Lease
) -> None:
    """Record how many events a wait has staged for a batch, if the batch follows the position.

    Blocks.

    :param lease: of that batch.
    :raises LeaseHeldError: another task holds the batch, or writes the position.
    """
    position = stores.read(store)
    if position is None or (position.epoch, position.batch_number + 1) != (epoch, batch_number):
        return
    if (position.staged_in, position.staged_events) != (staging_id, events):
        lease.check()
        _write_moved(store, position, record.note_wait(position, staging_id, events))


def write_origin(folder: TopicFolder, position: Position) -> None:
    """Record in the staging area how the position's epoch began; a second time changes nothing."""
    folder.write_origin(
        Origin(
            epoch=position.epoch,
            previous=position.previous_epoch,
            created_at=position.committed_at,
            position=position.to_json(),
        )
    )


def _write_moved(store: PositionStore, before: Position, after: Position) -> None:
    """Replace a position by another of the same epoch and batch number."""
    require_unchanged(store, before)
    stores.write(store, after)


def require_unchanged(store: PositionStore, before: Position | None) -> None:
    """Check that the store still holds this position.

    The hint of a wait (`record.note_wait`) is ignored, because no task decides by it.

    :raises LeaseHeldError: another task has written the position.
    """
    found = stores.read(store)
    if _without_hint(found) != _without_hint(before):
        stands = f"is in epoch {found.epoch}, after {found.start}" if found else "is gone"
        raise LeaseHeldError(
            f"{store.where} {stands}: another task has written it meanwhile. This task gives way; "
            "the next run continues from the position."
        )


def _without_hint(position: Position | None) -> Position | None:
    return replace(position, staged_in="", staged_events=0) if position else None
