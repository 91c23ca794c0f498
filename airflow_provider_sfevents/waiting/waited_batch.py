"""The coming batch during a wait: its lease is held only while an event is not on disk yet.

The batch is read again when the lease has been taken.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.next_batch import Coming, look
from airflow_provider_sfevents.batches.position import position_writes
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import LeaseHeldError, SfEventsError, StagingError
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.staging import extra_deliveries, leases
from airflow_provider_sfevents.staging.lease_holder import Holder
from airflow_provider_sfevents.staging.sidecar_files import Anchor
from airflow_provider_sfevents.waiting.wait_result import HELD, MOVED, OVERTAKEN, Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.position.position_writes import Pin
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Claim
    from airflow_provider_sfevents.staging.manifest import Run
    from airflow_provider_sfevents.staging.parts.part_writer import PartWriter

log = logging.getLogger(__name__)

PART_SECONDS = 2.0
"""Age of its first event, in seconds, at which a wait's file is closed.

It is the most that a kill may cost. Waits get few events, so files stay few."""

KEEPALIVE_SECONDS = 3600.0
"""Seconds between two recorded keepalives; 72 of them fit into the bus's retention."""


LOOK_SECONDS = 3.0
"""Seconds between two looks at the lease.

A task that needs the subscription waits that long, and then until the service has closed the
stream."""


def whole(coming: Coming, plan: recovery.Commit | recovery.Adopt) -> Heard:
    """Return the result of a wait for a batch that another process has staged meanwhile."""
    return Heard(batch_id=coming.batch_id, events=plan.manifest.events, ended_by=OVERTAKEN)


class WaitsBatch:
    """The coming batch, as one wait works with it.

    All methods but `release` touch the staging area or the store: call them in a thread, one at a
    time.

    :param store: the position's; None in a triggerer, where a deferred sensor waits.
    :param pin: writes the replay id of `latest` into the position, if the wait begins there.
    :ivar elsewhere: the result of the wait, once another process has the batch.
    :ivar claims_no_more: the wait is over; a thread that is about to take the lease releases it at
        once.
    """

    def __init__(
        self,
        coming: Coming,
        area: StagingArea,
        run: Run,
        store: PositionStore | None = None,
        pin: Pin | None = None,
    ) -> None:
        self.coming = coming
        self.folder = coming.folder(area)
        self.elsewhere: Heard | None = None
        self.claims_no_more = False
        self.staging_id = ""
        self._area = area
        self.topic_folder = coming.topic_folder(area)
        self._run = run
        self._store = store
        self._pin = pin
        self._claim: Claim | None = None

    @property
    def is_ours(self) -> bool:
        return self._claim is not None

    @property
    def is_pinned(self) -> bool:
        return self._pin is None

    def learn_staging_id(self) -> None:
        self.staging_id = self._area.known_id()

    def take_or_check(self, waited_for: recovery.Fetch) -> None:
        """Take the lease, or check that this wait still holds it."""
        if self._claim is None:
            self.take(waited_for)
        else:
            self._check()

    def take(
        self, waited_for: recovery.Fetch
    ) -> recovery.Commit | recovery.Adopt | recovery.Fetch | None:
        """Take the lease, and read again what is staged of the batch.

        :param waited_for: the plan when the wait began; if it is another one now, `elsewhere` is
            set.
        :return: the plan now; None if another process holds the lease or the position has moved.
        :raises StagingError: the staging area cannot be written.
        """
        batch_id = self.coming.batch_id
        if any(
            one > self.coming.sequence for one in self.topic_folder.sequences(self.coming.epoch)
        ):
            self.elsewhere = Heard(batch_id=batch_id, ended_by=MOVED)
            return None
        try:
            claim = self.folder.claim(Holder.here(self._run, datetime.now(UTC).isoformat()))
        except LeaseHeldError:
            self.leave_to_holder()
            return None
        self._claim = claim
        if self.claims_no_more:  # the wait was cancelled, and does not wait for this thread
            claim.release()
        steps.reached(steps.CLAIMED, batch_id)
        if self._has_begun_elsewhere():
            self.elsewhere = Heard(batch_id=batch_id, ended_by=MOVED)
            return None
        plan = recovery.plan(look(self.coming, self.topic_folder, sound=False))
        if not isinstance(plan, recovery.Fetch):
            self.elsewhere = whole(self.coming, plan)
        elif plan.kept != waited_for.kept:
            self.elsewhere = Heard(batch_id=batch_id, events=plan.events, ended_by=OVERTAKEN)
        return plan

    def pin(self, replay_id: str, by: str) -> ReplayPoint:
        """Write the position with a replay id instead of `latest`; return its replay point.

        :raises LeaseHeldError: another process has begun the position, or holds the batch.
        """
        assert self._pin is not None  # noqa: S101 - the caller has checked
        assert self._claim is not None  # noqa: S101 - a wait at `latest` holds the batch
        position = self._pin.record(replay_id, by, self._claim)
        self._pin = None
        self.coming = Coming.after(position, self.coming.managed)
        return position.start

    def note_heard_twice(self, events: int) -> None:
        """Count events that this wait received and that another process stages. Blocks."""
        if not events or leases.holder_of(self.folder.folder) is None:
            return  # nothing of the batch is here; it was swept, or is in another staging area
        try:
            self.folder.note_excess({extra_deliveries.HEARD_TWICE: events})
        except StagingError as error:
            log.warning(
                "Could not count %s as delivered twice: %s", counted(events, "event"), error
            )

    def leave_to_holder(self) -> None:
        """Set the result of the wait: another process works on the batch."""
        found = leases.holder_of(self.folder.folder)
        who = found[1].describe() if found else "a task that has just released it"
        self.elsewhere = Heard(batch_id=self.coming.batch_id, held_by=who, ended_by=HELD)

    def open_writer(self, plan: recovery.Fetch) -> PartWriter | None:
        """Begin a file at the plan's `resume`; None if this wait has lost the lease."""
        if self._claim is None:
            return None
        from airflow_provider_sfevents.staging.parts.part_writer import Limits

        limits = Limits(part_seconds=PART_SECONDS)
        return self.folder.writer(self._claim, plan.resume.to_text(), plan.events, limits)

    def keep_keepalive(self, replay_id: str, plan: recovery.Fetch) -> None:
        """Record a keepalive beside the batches, and in the position if nothing is staged.

        :raises StagingError: the staging area cannot be written.
        """
        coming = self.coming
        there = self.topic_folder.read_anchor()
        if there and there.epoch == coming.epoch and there.sequence >= coming.sequence:
            return  # the position has moved; the keepalive point belongs to a later batch
        self.topic_folder.write_anchor(
            Anchor(
                epoch=coming.epoch,
                sequence=coming.sequence - 1,
                replay_id=replay_id,
                seen_at=datetime.now(UTC).isoformat(),
                after=plan.resume.to_text(),
            )
        )
        steps.reached(steps.ANCHOR_WRITTEN, coming.batch_id)
        if self._store is not None and not plan.kept:
            self._keep_in_position(self._store, replay_id)

    def note_staged(self, events: int) -> None:
        """Record the number of staged events in the position, for tasks with another area."""
        if self._store is None or self._claim is None:
            return
        try:
            position_writes.note_wait(
                self._store,
                self.coming.epoch,
                self.coming.sequence,
                self.staging_id,
                events,
                self._claim,
            )
        except SfEventsError as error:
            log.warning("Could not record how many events are staged: %s", error)

    async def release(self) -> None:
        """Release the lease in a thread, if this wait holds it."""
        claim, self._claim = self._claim, None
        if claim is not None:
            await asyncio.to_thread(claim.release)

    def _check(self) -> None:
        try:
            if self._claim is not None:
                self._claim.check()
        except LeaseHeldError:
            self.leave_to_holder()

    def _has_begun_elsewhere(self) -> bool:
        """Return whether another process has begun the position since this wait found none."""
        if self._pin is None:
            return False
        try:
            self._pin.require_unchanged()
        except LeaseHeldError:
            return True
        return False

    def _keep_in_position(self, store: PositionStore, replay_id: str) -> None:
        """Record a keepalive at most once an hour; a fetching task records its own."""
        position = stores.read(store)
        here = (self.coming.epoch, self.coming.sequence, self.coming.start)
        if position is None or (position.epoch, position.sequence + 1, position.start) != here:
            return
        if position.resume_after_at:
            age = datetime.now(UTC) - datetime.fromisoformat(position.resume_after_at)
            if age < timedelta(seconds=KEEPALIVE_SECONDS):
                return
        try:
            with self.folder.claim(Holder.here(self._run, datetime.now(UTC).isoformat())) as claim:
                if self.folder.read_manifest() is None and not self.folder.parts():
                    position_writes.keep_keepalive(store, position, replay_id, claim)
        except LeaseHeldError as claimed:
            log.debug("Keepalive not recorded; the lease holder records its own: %s", claimed)


async def until_wanted(folder: BatchFolder, only_listens: Callable[[], bool]) -> None:
    """Return once another process, which may be alive, holds the batch's lease.

    :param only_listens: returns whether the wait could give up the subscription now.
    """
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if only_listens() and await asyncio.to_thread(_is_held, folder) and only_listens():
            return


def _is_held(folder: BatchFolder) -> bool:
    try:
        seen = leases.glance(folder.folder)
    except StagingError:
        return False
    return seen is not None and seen.may_be_alive
