"""A batch's events from a managed subscription, whose place Salesforce keeps; `redelivery` says what that means."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import age, redelivery
from airflow_provider_sfevents.batches.plain_supply import ByReplayId
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.pubsub.bounds import Progress
from airflow_provider_sfevents.staging import excess
from airflow_provider_sfevents.staging.chain import LATEST
from airflow_provider_sfevents.staging.marks import Confirmed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.batches.coming import Coming
    from airflow_provider_sfevents.batches.restart import Fetch
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.delivery import Delivery
    from airflow_provider_sfevents.pubsub.fetch import FetchResult, Heard, Receive
    from airflow_provider_sfevents.pubsub.managed import Managed
    from airflow_provider_sfevents.staging.area import TopicFolder

log = logging.getLogger(__name__)


class ByManaged:
    """Salesforce says where to start; `redelivery` what that means."""

    def __init__(
        self,
        client: PubSubClient,
        managed: Managed,
        coming: Coming,
        folder: TopicFolder,
        stop: asyncio.Event | None = None,
    ) -> None:
        self._plain = ByReplayId(client, coming.topic)
        self._managed = managed
        self._stop = stop
        self._offered = ""
        self._coming = coming
        self._topic_folder = folder
        self._folder = folder.batch(coming.epoch, coming.sequence)

    async def fetch(
        self,
        plan: Fetch,
        bounds: Bounds,
        receive: Receive,
        *,
        stop: asyncio.Event,
        heard: Heard | None = None,
    ) -> FetchResult:
        self._stop = stop
        await self._make_up(plan)
        if await asyncio.to_thread(self._has_no_place, plan):
            return await self._fetch_without_place(plan, bounds, receive, stop=stop, heard=heard)

        is_noted = plan.start != LATEST  # elsewhere there is a place already

        async def committed(replay_id: str) -> None:
            nonlocal is_noted
            if not is_noted:
                is_noted = True
                await self._note(replay_id)
            if heard is not None:
                await heard(replay_id)

        return await self._managed.fetch(
            bounds,
            receive,
            known=lambda: self._known(plan),
            place=redelivery.place_of(plan.start, plan.anchor),
            already=Progress(events=plan.events, bytes=plan.bytes),
            heard=committed,
            stop=stop,
        )

    async def keep(self, replay_id: str) -> None:
        """Commit it. Should the service not, what comes again is known; so nothing fails by it."""
        steps.reached(steps.MANAGED_COMMIT_NEXT, self._folder.batch_id)
        place = self._offered or replay_id
        if why := await self._managed.commit(place, self._stop):
            log.warning(
                "Salesforce did not keep the end of batch %s: %s. The batch is staged and lands all the same; what is delivered again is "
                "left out.",
                self._folder.batch_id,
                why,
            )
            return
        steps.reached(steps.MANAGED_COMMITTED, self._folder.batch_id)
        await self._note(place)

    def repeated(self) -> dict[str, int]:
        """What was known, and left out."""
        return {excess.STAGED_BEFORE: self._managed.dropped}

    async def _make_up(self, plan: Fetch) -> None:
        """Commit what an earlier attempt could not."""
        owed = await asyncio.to_thread(self._owed, plan)
        if not owed:
            return
        if not (why := await self._managed.commit(owed, self._stop)):
            is_own = bool(plan.kept) and owed == plan.kept[-1].end
            await asyncio.to_thread(self._confirm, self._coming.sequence - (not is_own), owed)
            return
        log.info(
            "Salesforce does not keep the place %s of an earlier attempt: %s. What is delivered again is left out.",
            owed,
            why,
        )

    async def _fetch_without_place(
        self,
        plan: Fetch,
        bounds: Bounds,
        receive: Receive,
        *,
        stop: asyncio.Event,
        heard: Heard | None,
    ) -> FetchResult:
        """Go on where our own files end, by a plain subscription: the managed one would begin at another `latest`, and what lies between be lost.

        Meanwhile the managed one is asked for a single event. Once the batch holds that one its place may be committed, and Salesforce has one.
        """
        log.warning(
            "Nothing has been committed to managed subscription %s yet, whose defaultReplay was LATEST, so it would start at another `latest`. Going on by our "
            "own record, after %s, until Salesforce takes a place; so nothing is missed.",
            self._coming.managed,
            plan.ask,
        )
        seen: set[bytes] = set()

        async def received(delivery: Delivery) -> None:
            seen.update(delivery.replay_ids)
            await receive(delivery)

        # A wait commits nothing, so it asks for nothing that would be paid for twice.
        offer = asyncio.ensure_future(self._managed.first() if heard is None else _nothing())
        try:
            return await self._plain.fetch(plan, bounds, received, stop=stop, heard=heard)
        finally:
            offer.cancel()
            await asyncio.wait((offer,))
            self._offered = _told(offer, seen)

    async def _note(self, place: str) -> None:
        """Write down beside the batch that Salesforce keeps this place."""
        try:
            await asyncio.to_thread(self._confirm, self._coming.sequence, place)
        except StagingError as error:
            log.warning("That Salesforce keeps the place cannot be noted down: %s", error)

    # From here on in a thread.

    def _confirm(self, sequence: int, replay_id: str) -> None:
        at = datetime.now(UTC).isoformat()
        batch = self._topic_folder.batch(self._coming.epoch, sequence)
        batch.write_confirmed(Confirmed(replay_id=replay_id, at=at))

    def _owed(self, plan: Fetch) -> str:
        anchor = age.anchor_at(self._topic_folder, self._coming.epoch, self._coming.sequence - 1)
        return redelivery.to_commit_first(
            plan.start,
            plan.kept,
            next(self._before(), None),
            anchored=anchor is not None,
            placed=bool(self._folder.read_confirmed()),
        )

    def _has_no_place(self, plan: Fetch) -> bool:
        """Whether something is staged, and Salesforce is not known to keep any place of this epoch, which began at `latest`."""
        coming, topic = self._coming, self._topic_folder
        if plan.ask == LATEST:
            return False
        started = [one.position for one in topic.origins() if one.epoch == coming.epoch]
        if not any(Position.from_json(one, "The origin").start == LATEST for one in started):
            return False
        newest_first = sorted(topic.sequences(coming.epoch), reverse=True)
        return not any(topic.batch(coming.epoch, one).read_confirmed() for one in newest_first)

    def _before(self) -> Iterator[redelivery.Before]:
        """Batches of the epoch that are still here, newest first."""
        for sequence in range(self._coming.sequence - 1, 0, -1):
            batch = self._topic_folder.batch(self._coming.epoch, sequence)
            manifest = batch.read_manifest()
            if manifest is None:
                return
            yield redelivery.Before(
                manifest=manifest,
                receipt=batch.read_receipt(),
                committed=batch.read_confirmed() == manifest.end,
            )

    def _known(self, plan: Fetch) -> dict[bytes, str]:
        """Event ids by replay id of all that may come again."""
        found = self._folder.identities(plan.kept)
        for before in redelivery.may_come_again(self._before()):
            batch = self._topic_folder.batch(before.manifest.epoch, before.manifest.sequence)
            found |= batch.identities(before.manifest.parts)
        return found


async def _nothing() -> bytes:
    return b""


def _told(offer: asyncio.Future[bytes], seen: set[bytes]) -> str:
    """The place that may be committed, hex; empty where nothing came, or what came is not ours yet."""
    if offer.cancelled():
        return ""
    if (error := offer.exception()) is not None:
        log.info("The managed subscription could not be listened to meanwhile: %s", error)
        return ""
    return offer.result().hex() if offer.result() in seen else ""
