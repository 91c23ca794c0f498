"""The coming batch as a wait has it: claimed while something of it is in memory only, and looked at again once it is ours."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.batches.coming import look
from airflow_provider_sfevents.batches.heard import HELD, MOVED, OVERTAKEN, Heard
from airflow_provider_sfevents.exceptions import BatchClaimed
from airflow_provider_sfevents.staging import claims
from airflow_provider_sfevents.staging.holders import Holder
from airflow_provider_sfevents.staging.marks import Anchor

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.coming import Coming
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.claims import Claim
    from airflow_provider_sfevents.staging.manifest import Run
    from airflow_provider_sfevents.staging.writer import PartWriter

PART_SECONDS = 2.0
"""Age of its first event at which a wait's file is closed: what a kill may cost. Waits get few events, so files stay few."""


def whole(coming: Coming, plan: restart.Commit | restart.Adopt) -> Heard:
    """What is heard of a batch that others have made meanwhile."""
    return Heard(batch_id=coming.batch_id, events=plan.manifest.events, ended_by=OVERTAKEN)


class WaitsBatch:
    """Each method but `release` touches the staging area and is called in a thread, one at a time.

    :ivar elsewhere: what is heard instead, as soon as the batch is not for this wait.
    :ivar claims_no_more: the wait is over, though a thread of it may still be about to claim.
    """

    def __init__(self, coming: Coming, area: StagingArea, run: Run) -> None:
        self.folder = coming.folder(area)
        self.elsewhere: Heard | None = None
        self.claims_no_more = False
        self._coming = coming
        self._topic_folder = coming.topic_folder(area)
        self._run = run
        self._claim: Claim | None = None

    @property
    def is_ours(self) -> bool:
        return self._claim is not None

    def take_or_check(self, waited_for: restart.Fetch) -> None:
        """Claim the batch, or make sure of the claim that there is."""
        if self._claim is None:
            self.take(waited_for)
        else:
            self._check()

    def take(
        self, waited_for: restart.Fetch
    ) -> restart.Commit | restart.Adopt | restart.Fetch | None:
        """Claim the batch, and see what has become of it.

        :param waited_for: as it was when the wait began; where it is no more, `elsewhere` is set.
        :return: what it is now, None where another has it or the position has gone on.
        :raises StagingError: the staging area cannot be written.
        """
        batch_id = self._coming.batch_id
        if any(
            one > self._coming.sequence for one in self._topic_folder.sequences(self._coming.epoch)
        ):
            self.elsewhere = Heard(batch_id=batch_id, ended_by=MOVED)
            return None
        try:
            claim = self.folder.claim(Holder.here(self._run, datetime.now(UTC).isoformat()))
        except BatchClaimed:
            self.leave_to_holder()
            return None
        self._claim = claim
        if self.claims_no_more:  # we were cancelled meanwhile, and nobody waits for this thread
            claim.release()
        steps.reached(steps.CLAIMED, batch_id)
        plan = restart.plan(look(self._coming, self._topic_folder, sound=False))
        if not isinstance(plan, restart.Fetch):
            self.elsewhere = whole(self._coming, plan)
        elif _end_of(plan) != _end_of(waited_for):
            self.elsewhere = Heard(batch_id=batch_id, events=plan.events, ended_by=OVERTAKEN)
        return plan

    def _check(self) -> None:
        """Whoever takes us for dead asks later. So while the batch is ours, now that we have heard something, no other `latest` missed less."""
        try:
            if self._claim is not None:
                self._claim.check()
        except BatchClaimed:
            self.leave_to_holder()

    def leave_to_holder(self) -> None:
        """Another is at work on the batch: its name is what is heard."""
        found = claims.holder_of(self.folder.folder)
        who = found[1].describe() if found else "somebody who has just let go"
        self.elsewhere = Heard(batch_id=self._coming.batch_id, held_by=who, ended_by=HELD)

    def open_writer(self, plan: restart.Fetch) -> PartWriter | None:
        """Begin a file where the plan goes on; None where the batch is not ours any more."""
        if self._claim is None:
            return None
        from airflow_provider_sfevents.staging.writer import Limits

        limits = Limits(part_seconds=PART_SECONDS)
        return self.folder.writer(self._claim, plan.resume, plan.events, limits)

    def write_anchor(self, replay_id: str, plan: restart.Fetch) -> None:
        """Write down the place that a keepalive told; not where others have moved the position meanwhile, whose anchor it would replace.

        :raises BatchClaimed: somebody took us for dead.
        :raises StagingError: the staging area cannot be written.
        """
        coming = self._coming
        there = self._topic_folder.read_anchor()
        if there and there.epoch == coming.epoch and there.sequence >= coming.sequence:
            return
        if self._claim is not None:
            self._claim.check()
        self._topic_folder.write_anchor(
            Anchor(
                epoch=coming.epoch,
                sequence=coming.sequence - 1,
                replay_id=replay_id,
                seen_at=datetime.now(UTC).isoformat(),
                after=plan.kept[-1].end if plan.kept else "",
            )
        )
        steps.reached(steps.ANCHOR_WRITTEN, coming.batch_id)

    async def release(self) -> None:
        """Let the batch go, if it is ours; beside the event loop."""
        claim, self._claim = self._claim, None
        if claim is not None:
            await asyncio.to_thread(claim.release)


def _end_of(plan: restart.Fetch) -> tuple[Any, ...]:
    return plan.start, plan.resume, plan.events, plan.loss
