"""One wait: subscribe where the coming batch goes on, and stage what comes as a part of it.

1. A wait claims nothing while nothing comes: a thousand heartbeats would cost too much, and a task that
   fetches must not be kept out. The batch is claimed when the first event has come, and released as soon
   as the events are in closed files.
2. Once claimed, the batch is read again. If another process has gone on with it meanwhile, this wait's
   events are a second delivery of the same; they are dropped.
3. `latest` is another moment for each subscription. So a wait at `latest` claims the batch before it
   subscribes, and writes the position with the replay id of the first keepalive or event (`Pin`).
4. Keepalives are recorded, the first at once and then hourly, as long as no event has come: beside the
   batches and, where the wait has the store, in the position. So a quiet topic does not expire.
5. If the staging area cannot be written, the event costs a second delivery; the wait reports it all the
   same, except at `latest`.
6. However the wait ends, what was received is in a closed file and the batch is released; nothing here
   blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import fallback, restart
from airflow_provider_sfevents.batches.aside import until_wanted
from airflow_provider_sfevents.batches.carry_over import hand_over
from airflow_provider_sfevents.batches.heard import (
    HELD,
    MAX_WAIT,
    MOVED,
    STOPPED,
    Heard,
)
from airflow_provider_sfevents.batches.supply import Supply, supplied
from airflow_provider_sfevents.batches.waits_batch import KEEPALIVE_SECONDS, WaitsBatch, whole
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import BatchClaimed, ReplayIdRefused, StagingError
from airflow_provider_sfevents.positions.record import EVENT, KEEPALIVE
from airflow_provider_sfevents.pubsub.replay_ids import LATEST

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.coming import Coming
    from airflow_provider_sfevents.batches.position_writes import Pin
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.manifest import Run
    from airflow_provider_sfevents.staging.writer import PartWriter

log = logging.getLogger(__name__)


async def listen(
    coming: Coming,
    plan: restart.Commit | restart.Adopt | restart.Fetch,
    client: PubSubClient,
    area: StagingArea,
    bounds: Bounds,
    *,
    run: Run,
    store: PositionStore | None = None,
    pin: Pin | None = None,
    stop: asyncio.Event | None = None,
    max_wait: float | None = None,
    until_enough: bool = False,
    unstaged: str = "",
) -> Heard:
    """Wait once. Cancelled, it takes what has been asked for and comes at once, and closes the file, before it ends.

    :param plan: what was found of the batch; for a whole one the wait ends without listening.
    :param bounds: of the coming batch, what is kept of it already included.
    :param run: the task that waits; for processes that find the batch claimed.
    :param store: the position's, where it can be written; not in the trigger of a deferred sensor.
    :param pin: how `latest` becomes a replay id; without it a wait at `latest` ends at once (`moved`).
    :param stop: ends the wait when set.
    :param max_wait: seconds to go on for after the first event, at most.
    :param until_enough: `max_wait` does not end a wait whose events cannot be staged, since each further wait would have them delivered once more.
    :param unstaged: why nothing is to be staged at all, where an earlier wait could not.
    :raises StagingError: the staging area cannot be written, and without it `latest` would be lost.
    :raises ReplayIdRefused: the bus does not know the replay id where the batch goes on.
    :raises SfEventsError: of other kinds, as `PubSubClient.fetch` does.
    """
    if not isinstance(plan, restart.Fetch):
        return whole(coming, plan)
    if plan.ask == LATEST and pin is None:
        return Heard(batch_id=coming.batch_id, ended_by=MOVED)
    while True:
        batch = WaitsBatch(coming, area, run, store, pin)
        wait = _Wait(batch, plan, bounds, max_wait, until_enough, unstaged)
        try:
            return await wait.run(client, stop)
        except ReplayIdRefused as refused:
            older = fallback.without_anchor(plan, refused)
            if older is None:
                raise
            plan = older


class _Wait:
    """Runs once."""

    def __init__(
        self,
        batch: WaitsBatch,
        plan: restart.Fetch,
        bounds: Bounds,
        max_wait: float | None,
        until_enough: bool,
        unstaged: str,
    ) -> None:
        self._batch = batch
        self._topic = batch.coming.topic
        self._plan = plan
        self._bounds = bounds
        self._max_wait = max_wait
        self._until_enough = until_enough
        self._over = asyncio.Event()
        self._ended_by = ""
        self._timer: asyncio.TimerHandle | None = None
        self._is_quiet = True
        self._received = 0
        self._in_vain = 0
        self._supply: Supply | None = None
        self._writer: PartWriter | None = None
        self._unstaged = unstaged
        self._keepalive_due_at = 0.0
        self._resume_after = ""

    async def run(self, client: PubSubClient, stop: asyncio.Event | None) -> Heard:
        work = asyncio.create_task(self._work(client))
        link = asyncio.ensure_future(stop.wait()) if stop is not None else None
        if link is not None:
            link.add_done_callback(lambda _: self._end(STOPPED))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._end(STOPPED)
            await _to_the_end(work)
            raise
        finally:
            if link is not None:
                link.cancel()

    async def _work(self, client: PubSubClient) -> Heard:
        result = None
        try:
            await asyncio.to_thread(self._batch.learn_staging_id)
            if not self._batch.is_pinned:
                await self._hold()
            if not self._over.is_set():
                result = await self._fetch(client)
        finally:
            await self._let_go()
        steps.reached(steps.HEARD, self._batch.coming.batch_id)
        return self._heard(result)

    async def _fetch(self, client: PubSubClient) -> FetchResult:
        coming = self._batch.coming
        log.info(
            "Waiting for events on %s after %s (batch %s, %s so far).",
            self._topic,
            self._plan.ask,
            coming.batch_id,
            counted(self._plan.events, "event"),
        )
        supply = supplied(client, coming, self._batch.topic_folder, self._batch.staging_id)
        async with supply as self._supply:
            aside = asyncio.create_task(self._step_aside()) if coming.managed else None
            try:
                result = await self._supply.fetch(
                    self._plan, self._bounds, self._receive, stop=self._over, heard=self._keepalive
                )
            finally:
                if aside is not None:
                    aside.cancel()
            for (
                delivery
            ) in result.beyond:  # of a stream that is shared; they belong to the same batch
                await self._receive(delivery)
            return result

    async def _step_aside(self) -> None:
        await until_wanted(self._batch.folder, lambda: self._is_quiet and not self._batch.is_ours)
        await asyncio.to_thread(self._batch.leave_to_holder)
        self._end(HELD)

    async def _hold(self) -> None:
        """Claim the batch before anything is asked for at `latest`."""
        try:
            await asyncio.to_thread(self._batch.take, self._plan)
        except StagingError as error:
            raise self._latest_is_lost(error) from error
        if self._batch.elsewhere is not None:
            self._end(self._batch.elsewhere.ended_by)

    async def _receive(self, delivery: Delivery) -> None:
        steps.reached(steps.DELIVERED, self._batch.coming.batch_id)
        pins = not self._batch.is_pinned
        if self._is_quiet:
            self._is_quiet, self._resume_after = False, ""
            await self._begin(delivery)
        if self._batch.elsewhere is not None:
            self._in_vain += len(delivery)
            return
        self._received += len(delivery)
        if self._writer is not None and not self._unstaged:
            try:
                await hand_over(delivery, self._writer)
                if pins and self._supply is not None:
                    # The event that pinned the position can be had from this file alone.
                    await self._supply.keep(await self._writer.sealed())
            except StagingError as error:
                self._not_staged(error, pinned_here=pins)
                await self._batch.release()  # it may be long until the rest has come

    async def _begin(self, first: Delivery) -> None:
        """The first event has come: claim the batch, read it again, and begin a file."""
        came_at = asyncio.get_running_loop().time()
        pins = not self._batch.is_pinned
        plan = self._plan  # a file with the pinning event starts at `latest`
        if not self._unstaged:
            try:
                await asyncio.to_thread(self._batch.take_or_check, self._plan)
                if self._batch.elsewhere is None and pins:
                    await self._pin(first.replay_ids[0].hex(), EVENT)
                if self._batch.elsewhere is not None:
                    self._end(self._batch.elsewhere.ended_by)
                    return
                self._writer = await asyncio.to_thread(self._batch.open_writer, plan)
            except StagingError as error:
                self._not_staged(error, pinned_here=pins)
                await self._batch.release()
        # Only now is it known whether `max_wait` may end this wait: a store may take longer than that to refuse.
        self._set_timer(came_at)

    async def _pin(self, replay_id: str, by: str) -> None:
        try:
            start = await asyncio.to_thread(self._batch.pin, replay_id, by)
        except BatchClaimed as claimed:
            log.info("This wait gives way: %s", claimed)
            self._batch.elsewhere = Heard(batch_id=self._batch.coming.batch_id, ended_by=MOVED)
            self._end(MOVED)
            return
        self._plan = replace(self._plan, start=start)

    def _set_timer(self, came_at: float) -> None:
        if self._max_wait is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(came_at + self._max_wait, self._waited)

    async def _keepalive(self, replay_id: str) -> None:
        # An event that was left to another process lies before a later keepalive too, and its file may never be closed.
        if not self._is_quiet:
            return
        self._resume_after = replay_id
        if time.monotonic() < self._keepalive_due_at:
            return
        self._keepalive_due_at = time.monotonic() + KEEPALIVE_SECONDS
        try:
            if not self._batch.is_pinned:
                await self._pin(replay_id, KEEPALIVE)
                await self._batch.release()
            else:
                await asyncio.to_thread(self._batch.keep_keepalive, replay_id, self._plan)
        except StagingError as error:
            if not self._batch.is_pinned:
                raise self._latest_is_lost(error) from error
            log.warning(
                "A keepalive of %s cannot be recorded, so its replay id gets older: %s",
                self._topic,
                error,
            )

    def _end(self, why: str) -> None:
        self._ended_by = self._ended_by or why
        self._over.set()

    def _waited(self) -> None:
        if not (self._unstaged and self._until_enough):
            self._end(MAX_WAIT)

    async def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._writer is not None:
                await self._writer.close()
                staged = self._plan.events + self._received
                if not self._unstaged:
                    await asyncio.to_thread(self._batch.note_staged, staged)
        except StagingError as error:
            self._not_staged(error)
        finally:
            self._batch.claims_no_more = True
            await self._batch.release()
        await asyncio.to_thread(self._batch.note_heard_twice, self._in_vain)

    def _not_staged(self, error: StagingError, *, pinned_here: bool = False) -> None:
        if pinned_here:
            raise self._latest_is_lost(error) from error
        if self._unstaged:
            return
        self._unstaged = (
            f"Events of {self._topic} cannot be staged here: {error} They are reported all the same; the task that fetches has them "
            "delivered once more, and they count a second time against the org's daily allowance."
        )
        log.warning("%s", self._unstaged)

    def _latest_is_lost(self, error: StagingError) -> StagingError:
        return StagingError(
            f"Waiting on {self._topic} from 'latest' needs a staging area that can be written: its first events are kept there, and "
            f"without it the task that fetches would miss them. {error}"
        )

    def _heard(self, result: FetchResult | None) -> Heard:
        if self._batch.elsewhere is not None:
            return self._batch.elsewhere
        coming = self._batch.coming
        if self._received and not self._unstaged:
            log.info(
                "Staged %s of %s for batch %s.",
                counted(self._received, "event"),
                self._topic,
                coming.batch_id,
            )
        error = result.error if result else None
        return Heard(
            batch_id=coming.batch_id,
            events=self._plan.events + self._received,
            staged=not self._unstaged,
            staging_id=self._batch.staging_id,
            resume_after=self._resume_after,
            ended_by=self._ended_by or (result.ended_by if result else ""),
            why=self._unstaged or (str(error) if error else ""),
        )


async def _to_the_end(work: asyncio.Task[Heard]) -> None:
    """Wait for it, though we were cancelled; cancelled once more, what comes still is left, but what came is sealed."""
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            work.cancel()
    if not work.cancelled() and (error := work.exception()) is not None:
        log.warning("The wait ended with an error after it was cancelled: %s", error)
