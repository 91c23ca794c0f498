"""One wait: subscribe where the coming batch goes on, and stage what comes as a part of it.

1. Who only waits claims nothing: a thousand heartbeats would cost too much, and a task that fetches must not be kept out. The batch is
   claimed when the first event has come, and let go as soon as what came is in closed files.
2. Once claimed, the batch is looked at again. Where another has gone on meanwhile, what came is a second delivery of the same; it is dropped.
3. While the place to go on from is `latest`, which is a moment and not a place, the batch is claimed before anything is asked for, until
   a keepalive is in the anchor or the first events are in a file: else two would begin at two different moments.
4. Keepalives go to the anchor, the first at once, then hourly, as long as no event has come; so a quiet topic expires nothing.
5. A staging area that cannot be written costs a second delivery, and is no reason not to say that something came; except at `latest`.
6. However it ends, what was received is sealed and the batch released; nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import fallback, restart
from airflow_provider_sfevents.batches.aside import until_wanted
from airflow_provider_sfevents.batches.fetch import hand_over
from airflow_provider_sfevents.batches.heard import (
    HELD,
    MAX_WAIT,
    STOPPED,
    Heard,
)
from airflow_provider_sfevents.batches.supply import Supply, supplied
from airflow_provider_sfevents.batches.waits_batch import WaitsBatch, whole
from airflow_provider_sfevents.exceptions import BatchClaimed, ReplayIdRefused, StagingError
from airflow_provider_sfevents.pubsub.start import LATEST

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.coming import Coming
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.delivery import Delivery
    from airflow_provider_sfevents.pubsub.fetch import FetchResult
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.manifest import Run
    from airflow_provider_sfevents.staging.writer import PartWriter

log = logging.getLogger(__name__)

ANCHOR_SECONDS = 3600.0
"""Between two keepalives that are written down; 72 of them fit into what the bus keeps."""


async def listen(
    coming: Coming,
    plan: restart.Commit | restart.Adopt | restart.Fetch,
    client: PubSubClient,
    area: StagingArea,
    bounds: Bounds,
    *,
    run: Run,
    stop: asyncio.Event | None = None,
    max_wait: float | None = None,
    until_enough: bool = False,
    unstaged: str = "",
) -> Heard:
    """Wait once. Cancelled, it takes what has been asked for and comes at once, and seals it, before it goes.

    :param plan: what was found of the batch; a whole one is heard of without listening.
    :param bounds: of the coming batch, what is kept of it already included.
    :param run: who waits; for those who find the batch claimed.
    :param stop: ends the wait when set.
    :param max_wait: seconds to go on for after the first event, at most.
    :param until_enough: what cannot be staged does not end by `max_wait`, since each further wait would have it delivered once more.
    :param unstaged: why nothing is to be staged at all, where an earlier wait has tried in vain.
    :raises StagingError: the staging area cannot be written, and without it the place would be lost.
    :raises ReplayIdRefused: the bus does not know the place where the batch goes on.
    :raises SfEventsError: of other kinds, as `PubSubClient.fetch` does.
    """
    if not isinstance(plan, restart.Fetch):
        return whole(coming, plan)

    def wait(plan: restart.Fetch) -> _Wait:
        return _Wait(coming, plan, area, bounds, run, max_wait, until_enough, unstaged)

    try:
        return await wait(plan).run(client, stop)
    except ReplayIdRefused as refused:
        return await wait(fallback.without_anchor(plan, refused)).run(client, stop)


class _Wait:
    """Runs once."""

    def __init__(
        self,
        coming: Coming,
        plan: restart.Fetch,
        area: StagingArea,
        bounds: Bounds,
        run: Run,
        max_wait: float | None,
        until_enough: bool,
        unstaged: str,
    ) -> None:
        self._coming = coming
        self._plan = plan
        self._topic_folder = coming.topic_folder(area)
        self._batch = WaitsBatch(coming, area, run)
        self._bounds = bounds
        self._max_wait = max_wait
        self._until_enough = until_enough
        self._at_a_moment = plan.ask == LATEST
        self._over = asyncio.Event()
        self._ended_by = ""
        self._timer: asyncio.TimerHandle | None = None
        self._is_quiet = True
        self._received = 0
        self._supply: Supply | None = None
        self._writer: PartWriter | None = None
        self._unstaged = unstaged
        self._anchor_due_at = 0.0

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
            if self._at_a_moment:
                await self._hold()
            if not self._over.is_set():
                result = await self._fetch(client)
        finally:
            await self._let_go()
        steps.reached(steps.HEARD, self._coming.batch_id)
        return self._heard(result)

    async def _fetch(self, client: PubSubClient) -> FetchResult:
        log.info(
            "Waiting for events on %s after %s (batch %s, %d events so far).",
            self._coming.topic,
            self._plan.ask,
            self._coming.batch_id,
            self._plan.events,
        )
        async with supplied(client, self._coming, self._topic_folder) as self._supply:
            aside = asyncio.create_task(self._step_aside()) if self._coming.managed else None
            try:
                return await self._supply.fetch(
                    self._plan, self._bounds, self._receive, stop=self._over, heard=self._keepalive
                )
            finally:
                if aside is not None:
                    aside.cancel()

    async def _step_aside(self) -> None:
        await until_wanted(self._batch.folder, lambda: self._is_quiet and not self._batch.is_ours)
        await asyncio.to_thread(self._batch.leave_to_holder)
        self._end(HELD)

    async def _hold(self) -> None:
        """Claim the batch before anything is asked for; not needed any more where another has learned the place by now."""
        try:
            plan = await asyncio.to_thread(self._batch.take, self._plan)
        except StagingError as error:
            raise self._place_lost(error) from error
        if isinstance(plan, restart.Fetch):
            # Where another has gone on meanwhile, nothing has been asked for yet, and so nothing is a second delivery.
            self._plan, self._batch.elsewhere = plan, None
            if plan.ask != LATEST:
                self._at_a_moment = False
                await self._batch.release()
        if self._batch.elsewhere is not None:
            self._end(self._batch.elsewhere.ended_by)

    async def _receive(self, delivery: Delivery) -> None:
        steps.reached(steps.DELIVERED, self._coming.batch_id)
        if self._is_quiet:
            self._is_quiet = False
            await self._begin()
        if self._batch.elsewhere is not None:
            return
        self._received += len(delivery)
        if self._writer is not None and not self._unstaged:
            try:
                await hand_over(delivery, self._writer)
                if self._at_a_moment and self._supply is not None and self._coming.managed:
                    await self._supply.keep(await self._writer.sealed())
            except StagingError as error:
                self._not_staged(error)
                await self._batch.release()  # it may be long until the rest has come

    async def _begin(self) -> None:
        """The first event has come: claim the batch, look at it again, and begin a file."""
        came_at = asyncio.get_running_loop().time()
        if not self._unstaged:
            try:
                await asyncio.to_thread(self._batch.take_or_check, self._plan)
                if self._batch.elsewhere is not None:
                    self._end(self._batch.elsewhere.ended_by)
                    return
                self._writer = await asyncio.to_thread(self._batch.open_writer, self._plan)
            except StagingError as error:
                self._not_staged(error)
                await self._batch.release()
        # Only now is it known whether a wait may end by it at all: a store may take longer than that to refuse.
        self._set_timer(came_at)

    def _set_timer(self, came_at: float) -> None:
        if self._max_wait is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(came_at + self._max_wait, self._waited)

    async def _keepalive(self, replay_id: str) -> None:
        # An event that was left to somebody else lies before a later keepalive too, and its file may never be closed.
        if not self._is_quiet or time.monotonic() < self._anchor_due_at:
            return
        self._anchor_due_at = time.monotonic() + ANCHOR_SECONDS
        try:
            await asyncio.to_thread(self._batch.write_anchor, replay_id, self._plan)
        except StagingError as error:
            if self._at_a_moment:
                raise self._place_lost(error) from error
            log.warning(
                "The place of %s that a keepalive told cannot be kept, so it gets older: %s",
                self._coming.topic,
                error,
            )
            return
        except BatchClaimed:  # somebody took us for dead
            await asyncio.to_thread(self._batch.leave_to_holder)
            self._end(HELD)
            return
        self._at_a_moment = False
        await self._batch.release()

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
        except StagingError as error:
            self._not_staged(error)
        finally:
            self._batch.claims_no_more = True
            await self._batch.release()

    def _not_staged(self, error: StagingError) -> None:
        if self._at_a_moment:
            raise self._place_lost(error) from error
        if self._unstaged:
            return
        self._unstaged = (
            f"What came on {self._coming.topic} cannot be staged here: {error} It is reported all the same; whoever fetches it has it "
            "delivered once more, and it counts a second time against the org's daily allowance."
        )
        log.warning("%s", self._unstaged)

    def _place_lost(self, error: StagingError) -> StagingError:
        return StagingError(
            f"Waiting on {self._coming.topic} from 'latest' needs a staging area that can be written: where 'latest' was is kept there, and "
            f"without it what comes while waiting would be missed by whoever fetches. {error}"
        )

    def _heard(self, result: FetchResult | None) -> Heard:
        if self._batch.elsewhere is not None:
            return self._batch.elsewhere
        if self._received and not self._unstaged:
            log.info(
                "%d events of %s are staged for batch %s.",
                self._received,
                self._coming.topic,
                self._coming.batch_id,
            )
        error = result.error if result else None
        return Heard(
            batch_id=self._coming.batch_id,
            events=self._plan.events + self._received,
            staged=not self._unstaged,
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
