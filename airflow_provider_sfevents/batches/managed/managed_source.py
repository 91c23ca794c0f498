"""Event source of a managed subscription, whose committed replay id Salesforce keeps."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.managed import redelivery
from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.batches.recovery import FetchPlan
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from airflow_provider_sfevents.staging import extra_deliveries
from airflow_provider_sfevents.staging.sidecar_files import Confirmed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.managed.managed_subscription import ManagedSubscription
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
        FetchResult,
        OnKeepalive,
        Receive,
    )
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.staging.area import TopicFolder

log = logging.getLogger(__name__)


class ManagedSource:
    """Starts after the replay id that was committed to Salesforce (see `redelivery`)."""

    def __init__(
        self,
        client: PubSubClient,
        managed: ManagedSubscription,
        next_batch: NextBatch,
        folder: TopicFolder,
        staging_id: str,
        *,
        plan: FetchPlan | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        self._staging_id = staging_id
        self._client = client
        self._managed = managed
        self._plan = plan or FetchPlan(start=next_batch.start)
        self._stop = stop
        self._offered = ""
        self._coming = next_batch
        self._topic_folder = folder
        self._folder = folder.batch(next_batch.epoch, next_batch.batch_number)

    async def fetch(
        self,
        start: ReplayPoint,
        bounds: Bounds,
        receive: Receive,
        *,
        already: StagedProgress,
        stop: asyncio.Event,
        on_keepalive: OnKeepalive | None,
        equal_points: tuple[ReplayPoint, ...],
        outlast: bool,
    ) -> FetchResult:
        """Fetch as `PubSubClient.fetch`; `start` counts only if Salesforce keeps no replay id."""
        self._stop = stop
        await self._make_up()
        plan = self._plan
        if await asyncio.to_thread(self._has_no_place, plan):
            without = partial(
                self._client.fetch,
                self._coming.topic,
                start,
                bounds,
                already=already,
                stop=stop,
                on_keepalive=on_keepalive,
                equal_points=equal_points,
                outlast=outlast,
            )
            return await self._fetch_without_place(without, receive, on_keepalive)

        is_noted = plan.start != LATEST  # otherwise one is recorded already

        async def committed(replay_id: str) -> None:
            nonlocal is_noted
            if not is_noted:
                is_noted = True
                await self._note(replay_id)
            if on_keepalive is not None:
                await on_keepalive(replay_id)

        return await self._managed.fetch(
            bounds,
            receive,
            known=lambda: self._known(plan),
            kept_replay_id=redelivery.kept_replay_id(plan),
            already=already,
            on_keepalive=committed,
            stop=stop,
            outlast=outlast,
        )

    async def keep(self, replay_id: str) -> None:
        """Commit a replay id to Salesforce.

        A failure only warns, because events that are delivered again are known.
        """
        steps.reached(steps.MANAGED_COMMIT_NEXT, self._folder.batch_id)
        place = self._offered or replay_id
        if why := await self._managed.commit(place, self._stop):
            log.warning(
                "Salesforce did not commit the end of batch %s: %s. The batch is staged and lands "
                "nevertheless; events that are delivered again are left out.",
                self._folder.batch_id,
                why,
            )
            return
        steps.reached(steps.MANAGED_COMMITTED, self._folder.batch_id)
        await self._note(place)

    def repeated(self) -> dict[str, int]:
        """Return the number of events that were known already and left out."""
        return {extra_deliveries.STAGED_BEFORE: self._managed.dropped}

    async def _make_up(self) -> None:
        """Commit the replay id that an earlier attempt could not commit."""
        owed = await asyncio.to_thread(self._owed)
        if not owed:
            return
        if not (why := await self._managed.commit(owed, self._stop)):
            await asyncio.to_thread(self._confirm, self._coming.batch_number - 1, owed)
            return
        log.info(
            "Salesforce did not commit replay id %s of an earlier attempt: %s. Events that are "
            "delivered again are left out.",
            owed,
            why,
        )

    async def _fetch_without_place(
        self,
        fetch: Callable[..., Awaitable[FetchResult]],
        receive: Receive,
        on_keepalive: OnKeepalive | None,
    ) -> FetchResult:
        """Continue by the position, with a plain subscription: the managed one might skip events.

        In parallel, the managed subscription is asked for a single event. Once the batch holds that
        event, its replay id may be committed, and Salesforce then keeps a replay id from this
        staging area.
        """
        log.warning(
            "This staging area does not know where managed subscription %s would start: nothing "
            "that was staged here has been committed to Salesforce in this epoch. So that nothing "
            "is missed, the fetch continues by the position, after %s, over a plain subscription, "
            "until Salesforce has committed a replay id. It costs one extra delivery.",
            self._coming.managed,
            self._plan.subscribe_at,
        )
        seen: set[bytes] = set()

        async def received(delivery: Delivery) -> None:
            seen.update(delivery.replay_ids)
            await receive(delivery)

        # A wait commits nothing, so it requests no event that would be delivered twice.
        offer = asyncio.ensure_future(self._managed.first() if on_keepalive is None else _nothing())
        try:
            result = await fetch(received)
            # Salesforce may deliver these again, so they are not kept for the next batch.
            self._managed.late += sum(map(len, result.beyond))
            return replace(result, beyond=())
        finally:
            offer.cancel()
            await asyncio.wait((offer,))
            self._offered = _told(offer, seen)

    async def _note(self, place: str) -> None:
        """Record beside the batch that Salesforce keeps this replay id."""
        try:
            await asyncio.to_thread(self._confirm, self._coming.batch_number, place)
        except StagingError as error:
            log.warning("Could not record that Salesforce keeps the replay id: %s", error)

    # The methods below block; they run in a thread.

    def _confirm(self, batch_number: int, replay_id: str) -> None:
        at = datetime.now(UTC).isoformat()
        batch = self._topic_folder.batch(self._coming.epoch, batch_number)
        batch.write_confirmed(Confirmed(replay_id=replay_id, at=at))

    def _owed(self) -> str:
        """Return the end of the batch before, if it still has to be committed to Salesforce.

        Empty if another staging area's form of that batch has landed.
        """
        keepalive_point = replay_id_age.keepalive_point_at(
            self._topic_folder, self._coming.epoch, self._coming.batch_number - 1
        )
        moved_on = keepalive_point is not None or bool(self._coming.resume_after)
        owed = redelivery.to_commit_first(next(self._before(), None), moved_on=moved_on)
        return owed if owed == self._coming.position_start else ""

    def _has_no_place(self, plan: FetchPlan) -> bool:
        """Return whether the managed subscription might start beyond what this staging area holds.

        It does not in two cases: the position was last worked on with this area, and Salesforce has
        committed a replay id from here since then; or the epoch began here, at `earliest`, and no
        other area was used. A first batch at `earliest` needs no origin for that: a task may have
        died after the first record and before the origin.
        """
        next_batch, topic = self._coming, self._topic_folder
        if plan.subscribe_at == LATEST:
            return False
        if next_batch.staging_id != self._staging_id:
            return True
        if (next_batch.batch_number, next_batch.start) == (1, EARLIEST):
            return False
        newest_first = sorted(topic.batch_numbers(next_batch.epoch), reverse=True)
        since = [one for one in newest_first if one >= next_batch.staging_since]
        if any(topic.batch(next_batch.epoch, one).read_confirmed() for one in since):
            return False
        return next_batch.staging_since > 1 or not self._has_begun_here()

    def _has_begun_here(self) -> bool:
        """Return whether the epoch began with this staging area, at `earliest`."""
        for origin in self._topic_folder.origins():
            if origin.epoch == self._coming.epoch:
                begun = Position.from_json(origin.position, "The origin")
                return (begun.initial_replay, begun.staging_id) == (
                    EARLIEST.to_text(),
                    self._staging_id,
                )
        return False

    def _before(self) -> Iterator[redelivery.Before]:
        """Yield the batches of the epoch that are still here, newest first."""
        for batch_number in range(self._coming.batch_number - 1, 0, -1):
            batch = self._topic_folder.batch(self._coming.epoch, batch_number)
            manifest = batch.read_manifest()
            if manifest is None:
                return
            yield redelivery.Before(
                manifest=manifest,
                receipt=batch.read_receipt(),
                committed=batch.read_confirmed() == manifest.end,
            )

    def _known(self, plan: FetchPlan) -> dict[bytes, str]:
        """Return the event ids, by replay id, of all events that may come again."""
        found = self._folder.identities(plan.kept)
        for before in redelivery.may_come_again(self._before()):
            batch = self._topic_folder.batch(before.manifest.epoch, before.manifest.batch_number)
            found |= batch.identities(before.manifest.parts)
        return found


async def _nothing() -> bytes:
    return b""


def _told(offer: asyncio.Future[bytes], seen: set[bytes]) -> str:
    """Return the replay id that may be committed, hex; empty if its event is not in the batch."""
    if offer.cancelled():
        return ""
    if (error := offer.exception()) is not None:
        log.info("Could not get an event from the managed subscription: %s", error)
        return ""
    return offer.result().hex() if offer.result() in seen else ""
