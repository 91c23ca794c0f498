"""The next batch during a wait: its lease is held only while an event is not on disk yet.

The batch is read again when the lease has been taken.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.next_batch import NextBatch, look
from airflow_provider_sfevents.batches.position import position_writes
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import LeaseHeldError, SfEventsError, StagingError
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.staging import extra_deliveries, leases
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.waiting.wait_result import HELD, MOVED, OVERTAKEN, WaitResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.position.position_writes import Pin
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Lease
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


def whole(next_batch: NextBatch, plan: recovery.CommitPlan | recovery.ReusePlan) -> WaitResult:
    """Return the result of a wait for a batch that another process has staged meanwhile."""
    return WaitResult(batch_id=next_batch.batch_id, events=plan.manifest.events, ended_by=OVERTAKEN)


class WaitedBatch:
    """The next batch, as one wait works with it.

    All methods but `release` touch the staging area or the store: call them in a thread, one at a
    time.

    :param store: the position's; None in a triggerer, where a deferred sensor waits.
    :param pin: writes the replay id of `latest` into the position, if the wait begins there.
    :ivar elsewhere: the result of the wait, once another process has the batch.
    :ivar takes_no_lease: the wait is over; a thread that is about to take the lease releases it at
        once.
    """

    def __init__(
        self,
        next_batch: NextBatch,
        area: StagingArea,
        run: Run,
        store: PositionStore | None = None,
        pin: Pin | None = None,
    ) -> None:
        self.next_batch = next_batch
        self.folder = next_batch.folder(area)
        self.elsewhere: WaitResult | None = None
        self.takes_no_lease = False
        self.staging_id = ""
        self._area = area
        self.topic_folder = next_batch.topic_folder(area)
        self._run = run
        self._store = store
        self._pin = pin
        self._lease: Lease | None = None

    @property
    def is_ours(self) -> bool:
        return self._lease is not None

    @property
    def is_pinned(self) -> bool:
        return self._pin is None

    def learn_staging_id(self) -> None:
        self.staging_id = self._area.known_id()

    def take_or_check(self, waited_for: recovery.FetchPlan) -> None:
        """Take the lease, or check that this wait still holds it."""
        if self._lease is None:
            self.take(waited_for)
        else:
            self._check()

    def take(
        self, waited_for: recovery.FetchPlan
    ) -> recovery.CommitPlan | recovery.ReusePlan | recovery.FetchPlan | None:
        """Take the lease, and read again what is staged of the batch.

        :param waited_for: the plan when the wait began; if it is another one now, `elsewhere` is
            set.
        :return: the plan now; None if another process holds the lease or the position has moved.
        :raises StagingError: the staging area cannot be written.
        """
        batch_id = self.next_batch.batch_id
        if any(
            one > self.next_batch.batch_number
            for one in self.topic_folder.batch_numbers(self.next_batch.epoch)
        ):
            self.elsewhere = WaitResult(batch_id=batch_id, ended_by=MOVED)
            return None
        try:
            lease = self.folder.take_lease(
                LeaseHolder.here(self._run, datetime.now(UTC).isoformat())
            )
        except LeaseHeldError:
            self.leave_to_holder()
            return None
        self._lease = lease
        if self.takes_no_lease:  # the wait was cancelled, and does not wait for this thread
            lease.release()
        steps.reached(steps.LEASED, batch_id)
        if self._has_begun_elsewhere():
            self.elsewhere = WaitResult(batch_id=batch_id, ended_by=MOVED)
            return None
        plan = recovery.plan(look(self.next_batch, self.topic_folder, sound=False))
        if not isinstance(plan, recovery.FetchPlan):
            self.elsewhere = whole(self.next_batch, plan)
        elif plan.kept != waited_for.kept:
            self.elsewhere = WaitResult(batch_id=batch_id, events=plan.events, ended_by=OVERTAKEN)
        return plan

    def pin(self, replay_id: str, by: str) -> ReplayPoint:
        """Write the position with a replay id instead of `latest`; return its replay point.

        :raises LeaseHeldError: another process has begun the position, or holds the batch.
        """
        assert self._pin is not None  # noqa: S101 - the caller has checked
        assert self._lease is not None  # noqa: S101 - a wait at `latest` holds the batch
        position = self._pin.record(replay_id, by, self._lease)
        self._pin = None
        self.next_batch = NextBatch.after(position, self.next_batch.managed)
        return position.start

    def note_overlapping_wait(self, events: int) -> None:
        """Count events that this wait received and that another process stages. Blocks."""
        if not events or leases.holder_of(self.folder.folder) is None:
            return  # nothing of the batch is here; it was swept, or is in another staging area
        try:
            self.folder.count_extra_deliveries({extra_deliveries.OVERLAPPING_WAIT: events})
        except StagingError as error:
            log.warning(
                "Could not count %s as delivered twice: %s", counted(events, "event"), error
            )

    def leave_to_holder(self) -> None:
        """Set the result of the wait: another process works on the batch."""
        found = leases.holder_of(self.folder.folder)
        who = found[1].describe() if found else "a task that has just released it"
        self.elsewhere = WaitResult(batch_id=self.next_batch.batch_id, held_by=who, ended_by=HELD)

    def open_writer(self, plan: recovery.FetchPlan) -> PartWriter | None:
        """Begin a file at the plan's `resume`; None if this wait has lost the lease."""
        if self._lease is None:
            return None
        from airflow_provider_sfevents.staging.parts.part_writer import Limits

        limits = Limits(part_seconds=PART_SECONDS)
        return self.folder.writer(self._lease, plan.resume.to_text(), plan.events, limits)

    def keep_keepalive(self, replay_id: str, plan: recovery.FetchPlan) -> None:
        """Record a keepalive beside the batches, and in the position if nothing is staged.

        :raises StagingError: the staging area cannot be written.
        """
        next_batch = self.next_batch
        there = self.topic_folder.read_keepalive_point()
        if (
            there
            and there.epoch == next_batch.epoch
            and there.batch_number >= next_batch.batch_number
        ):
            return  # the position has moved; the keepalive point belongs to a later batch
        self.topic_folder.write_keepalive_point(
            KeepalivePoint(
                epoch=next_batch.epoch,
                batch_number=next_batch.batch_number - 1,
                replay_id=replay_id,
                seen_at=datetime.now(UTC).isoformat(),
                after=plan.resume.to_text(),
            )
        )
        steps.reached(steps.KEEPALIVE_POINT_WRITTEN, next_batch.batch_id)
        if self._store is not None and not plan.kept:
            self._keep_in_position(self._store, replay_id)

    def note_staged(self, events: int) -> None:
        """Record the number of staged events in the position, for tasks with another area."""
        if self._store is None or self._lease is None:
            return
        try:
            position_writes.note_wait(
                self._store,
                self.next_batch.epoch,
                self.next_batch.batch_number,
                self.staging_id,
                events,
                self._lease,
            )
        except SfEventsError as error:
            log.warning("Could not record how many events are staged: %s", error)

    async def release(self) -> None:
        """Release the lease in a thread, if this wait holds it."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await asyncio.to_thread(lease.release)

    def _check(self) -> None:
        try:
            if self._lease is not None:
                self._lease.check()
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
        here = (self.next_batch.epoch, self.next_batch.batch_number, self.next_batch.start)
        if position is None or (position.epoch, position.batch_number + 1, position.start) != here:
            return
        if position.resume_after_at:
            age = datetime.now(UTC) - datetime.fromisoformat(position.resume_after_at)
            if age < timedelta(seconds=KEEPALIVE_SECONDS):
                return
        try:
            with self.folder.take_lease(
                LeaseHolder.here(self._run, datetime.now(UTC).isoformat())
            ) as lease:
                if self.folder.read_manifest() is None and not self.folder.parts():
                    position_writes.keep_keepalive(store, position, replay_id, lease)
        except LeaseHeldError as leased:
            log.debug("Keepalive not recorded; the lease holder records its own: %s", leased)


async def until_wanted(folder: BatchFolder, only_listens: Callable[[], bool]) -> None:
    """Wait until another process, which is or may be alive, holds the batch's lease.

    :param only_listens: returns whether the wait could give up the subscription now.
    """
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if only_listens() and await asyncio.to_thread(_is_held, folder) and only_listens():
            return


def _is_held(folder: BatchFolder) -> bool:
    try:
        seen = leases.observe(folder.folder)
    except StagingError:
        return False
    return seen is not None and seen.may_be_alive
