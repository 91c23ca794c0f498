"""A wait: subscribe after what is known of the next batch, and stage the events as part of it.

1. A wait without events holds no lease: a thousand lease heartbeats would cost too much, and a
   fetching task must not be kept out. The wait takes the lease when the first event has come, and
   releases it as soon as the events are in closed files.
2. Under the lease, the batch is read again. If another process has staged more of it in between,
   this wait's events are extra deliveries; they are dropped.
3. `latest` resolves to a different replay id for each subscription. So a wait at `latest` takes the
   lease before it subscribes, and writes the position with the replay id of the first keepalive or
   event (`Pin`).
4. Keepalives are recorded, the first at once and then hourly, as long as no event has come: beside
   the batches and, if the wait has the store, in the position. So a quiet topic's replay id does
   not expire.
5. If the staging area cannot be written, the events are delivered a second time. The wait reports
   them nevertheless, except at `latest`.
6. However the wait ends, received events are in a closed file and the lease is released. Nothing
   here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.event_source import EventSource, open_source
from airflow_provider_sfevents.batches.position import replay_fallback
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import LeaseHeldError, ReplayIdRefusedError, StagingError
from airflow_provider_sfevents.positions.record import EVENT, KEEPALIVE
from airflow_provider_sfevents.replay_point import LATEST
from airflow_provider_sfevents.waiting.wait_result import HELD, MAX_WAIT, MOVED, STOPPED, WaitResult
from airflow_provider_sfevents.waiting.waited_batch import (
    KEEPALIVE_SECONDS,
    WaitedBatch,
    until_wanted,
    whole,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.batches.position.position_writes import Pin
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.manifest import Run
    from airflow_provider_sfevents.staging.parts.part_writer import PartWriter

log = logging.getLogger(__name__)

MaxWait = float | Callable[[], Awaitable[float]]


async def listen(
    next_batch: NextBatch,
    plan: recovery.CommitPlan | recovery.ReusePlan | recovery.FetchPlan,
    client: TopicClient,
    area: StagingArea,
    bounds: Bounds,
    *,
    run: Run,
    store: PositionStore | None = None,
    pin: Pin | None = None,
    stop: asyncio.Event | None = None,
    max_wait: MaxWait | None = None,
    until_enough: bool = False,
    unstaged: str = "",
) -> WaitResult:
    """Wait once for events of the next batch.

    If the wait is cancelled, it first receives requested events that come at once, and closes the
    file.

    :param plan: of the batch; if the batch has a manifest, the wait ends without listening.
    :param bounds: of the next batch, including what is staged of it.
    :param run: the waiting task; recorded in the lease for other processes.
    :param store: the position's; None if it cannot be written, as in the trigger of a deferred
        sensor.
    :param pin: writes the replay id of `latest` into the position; without it a wait at `latest`
        ends at once (`moved`).
    :param stop: ends the wait when set.
    :param max_wait: maximum seconds to continue after the first event; or a function that returns
        them, which is called when that event has come.
    :param until_enough: `max_wait` does not end a wait whose events cannot be staged, because each
        further wait would have them delivered once more.
    :param unstaged: reason not to stage anything, if an earlier wait could not; empty: none.
    :raises StagingError: the staging area cannot be written, and without it `latest` would be lost.
    :raises ReplayIdRefusedError: the bus does not know the replay id to continue from.
    :raises SfEventsError: of other kinds, as `PubSubClient.fetch` does.
    """
    if not isinstance(plan, recovery.FetchPlan):
        return whole(next_batch, plan)
    if plan.subscribe_at == LATEST and pin is None:
        return WaitResult(batch_id=next_batch.batch_id, ended_by=MOVED)
    while True:
        batch = WaitedBatch(next_batch, area, run, store, pin)
        wait = _Wait(batch, plan, bounds, max_wait, until_enough, unstaged)
        try:
            return await wait.run(client, stop)
        except ReplayIdRefusedError as refused:
            older = replay_fallback.without_keepalive_point(plan, refused)
            if older is None:
                raise
            plan = older


class _Wait:
    """State of one wait; `run` is called once."""

    def __init__(
        self,
        batch: WaitedBatch,
        plan: recovery.FetchPlan,
        bounds: Bounds,
        max_wait: MaxWait | None,
        until_enough: bool,
        unstaged: str,
    ) -> None:
        self._batch = batch
        self._topic = batch.next_batch.topic
        self._plan = plan
        self._bounds = bounds
        self._max_wait = max_wait
        self._until_enough = until_enough
        self._over = asyncio.Event()
        self._ended_by = ""
        self._timer: asyncio.TimerHandle | None = None
        self._is_quiet = True
        self._received = 0
        self._overlap = 0
        self._source: EventSource | None = None
        self._writer: PartWriter | None = None
        self._unstaged = unstaged
        self._keepalive_due_at = 0.0
        self._resume_after = ""

    async def run(self, client: TopicClient, stop: asyncio.Event | None) -> WaitResult:
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

    async def _work(self, client: TopicClient) -> WaitResult:
        result = None
        try:
            await asyncio.to_thread(self._batch.learn_staging_id)
            if not self._batch.is_pinned:
                await self._hold()
            if not self._over.is_set():
                result = await self._fetch(client)
        finally:
            await self._let_go()
        steps.reached(steps.WAITED, self._batch.next_batch.batch_id)
        return self._wait_result(result)

    async def _fetch(self, client: TopicClient) -> FetchResult:
        next_batch = self._batch.next_batch
        log.info(
            "Waiting for events on %s after %s (batch %s, %s so far).",
            self._topic,
            self._plan.subscribe_at,
            next_batch.batch_id,
            counted(self._plan.events, "event"),
        )
        source = open_source(
            client, next_batch, self._plan, self._batch.topic_folder, self._batch.staging_id
        )
        async with source as self._source:
            aside = asyncio.create_task(self._step_aside()) if next_batch.managed else None
            try:
                result = await self._source.fetch(
                    self._plan.subscribe_at,
                    self._bounds,
                    self._receive,
                    already=self._plan.progress,
                    stop=self._over,
                    on_keepalive=self._keepalive,
                    equal_points=(self._plan.resume,),
                    outlast=False,
                )
            finally:
                if aside is not None:
                    aside.cancel()
            # Events beyond the bounds, of a shared stream: they belong to the same batch.
            for delivery in result.beyond:
                await self._receive(delivery)
            return result

    async def _step_aside(self) -> None:
        await until_wanted(self._batch.folder, lambda: self._is_quiet and not self._batch.is_ours)
        await asyncio.to_thread(self._batch.leave_to_holder)
        self._end(HELD)

    async def _hold(self) -> None:
        """Take the lease before the subscription starts at `latest`."""
        try:
            await asyncio.to_thread(self._batch.take, self._plan)
        except StagingError as error:
            raise self._latest_is_lost(error) from error
        if self._batch.elsewhere is not None:
            self._end(self._batch.elsewhere.ended_by)

    async def _receive(self, delivery: Delivery) -> None:
        steps.reached(steps.DELIVERED, self._batch.next_batch.batch_id)
        pins = not self._batch.is_pinned
        if self._is_quiet:
            self._is_quiet, self._resume_after = False, ""
            await self._begin(delivery)
        if self._batch.elsewhere is not None:
            self._overlap += len(delivery)
            return
        self._received += len(delivery)
        if self._writer is not None and not self._unstaged:
            try:
                await self._writer.append(delivery)
                if pins and self._source is not None:
                    # Only this file holds the event that pinned the position.
                    await self._source.keep(await self._writer.sealed())
            except StagingError as error:
                self._not_staged(error, pinned_here=pins)
                await self._batch.release()  # the remaining events may take long

    async def _begin(self, first: Delivery) -> None:
        """Handle the first event: take the lease, read the batch again, and begin a file."""
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
        # Only now is it known whether `max_wait` may end this wait, because that depends on
        # `_unstaged`: a store may take longer than `max_wait` to refuse.
        await self._set_timer(came_at)

    async def _pin(self, replay_id: str, by: str) -> None:
        try:
            start = await asyncio.to_thread(self._batch.pin, replay_id, by)
        except LeaseHeldError as leased:
            log.info("This wait gives way: %s", leased)
            self._batch.elsewhere = WaitResult(
                batch_id=self._batch.next_batch.batch_id, ended_by=MOVED
            )
            self._end(MOVED)
            return
        self._plan = replace(self._plan, start=start)

    async def _set_timer(self, came_at: float) -> None:
        if self._max_wait is not None:
            seconds = await self._max_wait() if callable(self._max_wait) else self._max_wait
            self._timer = asyncio.get_running_loop().call_at(came_at + seconds, self._waited)

    async def _keepalive(self, replay_id: str) -> None:
        # No keepalive counts after the first event: the process that stages the event may die
        # before it closes the file, and the event comes before the keepalive.
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
            self._batch.takes_no_lease = True
            await self._batch.release()
        await asyncio.to_thread(self._batch.note_overlapping_wait, self._overlap)

    def _not_staged(self, error: StagingError, *, pinned_here: bool = False) -> None:
        if pinned_here:
            raise self._latest_is_lost(error) from error
        if self._unstaged:
            return
        self._unstaged = (
            f"Events of {self._topic} cannot be staged here: {error} They are reported "
            "nevertheless; the task that fetches has them delivered once more, and they count a "
            "second time against the org's daily allowance."
        )
        log.warning("%s", self._unstaged)

    def _latest_is_lost(self, error: StagingError) -> StagingError:
        return StagingError(
            f"Waiting on {self._topic} from 'latest' needs a staging area that can be written: its "
            "first events are kept there, and without it the task that fetches would miss them. "
            f"{error}"
        )

    def _wait_result(self, result: FetchResult | None) -> WaitResult:
        if self._batch.elsewhere is not None:
            return self._batch.elsewhere
        next_batch = self._batch.next_batch
        if self._received and not self._unstaged:
            log.info(
                "Staged %s of %s for batch %s.",
                counted(self._received, "event"),
                self._topic,
                next_batch.batch_id,
            )
        error = result.error if result else None
        return WaitResult(
            batch_id=next_batch.batch_id,
            events=self._plan.events + self._received,
            staged=not self._unstaged,
            staging_id=self._batch.staging_id,
            resume_after=self._resume_after,
            ended_by=self._ended_by or (result.ended_by if result else ""),
            why=self._unstaged or (str(error) if error else ""),
        )


async def _to_the_end(work: asyncio.Task[WaitResult]) -> None:
    """Finish the wait after a cancellation.

    After a second cancellation it stops receiving, but still seals received events in the file.
    """
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            work.cancel()
    if not work.cancelled() and (error := work.exception()) is not None:
        log.warning("The wait ended with an error after it was cancelled: %s", error)
