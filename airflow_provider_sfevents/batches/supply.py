"""Where a batch's events come from: a subscription that is told where to start, or one whose place Salesforce keeps."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import age, redelivery
from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.pubsub.bounds import Progress
from airflow_provider_sfevents.staging.marks import Confirmed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from airflow_provider_sfevents.batches.coming import Coming
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.restart import Fetch
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.fetch import FetchResult, Heard, Receive
    from airflow_provider_sfevents.pubsub.managed import Managed
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder

log = logging.getLogger(__name__)


class Supply(Protocol):
    """What a fetch and a wait need."""

    async def fetch(
        self,
        plan: Fetch,
        bounds: Bounds,
        receive: Receive,
        *,
        stop: asyncio.Event,
        heard: Heard | None = None,
    ) -> FetchResult:
        """As `PubSubClient.fetch`; `heard` is told places that are safe to go on from."""

    async def keep(self, replay_id: str) -> None:
        """All up to this place is in durable files, hex."""


@asynccontextmanager
async def supplied(
    client: PubSubClient, coming: Coming, folder: TopicFolder
) -> AsyncGenerator[Supply]:
    """The supply of the coming batch; at the end no stream is open."""
    if not coming.managed:
        yield ByReplayId(client, coming.topic)
        return
    async with client.managed(coming.managed, coming.topic) as managed:
        yield ByManaged(managed, coming, folder)
    tell_excess(coming, managed)


async def fit(request: BatchRequest, client: PubSubClient, area: StagingArea) -> BatchRequest:
    """The request, with what the managed subscription's setup says of a first run; of another one as it is.

    :raises ConfigurationError: the subscription is not fit for it, or delivers to another consumer.
    """
    if not request.managed:
        return request
    config = await client.managed(request.managed, request.topic).config(
        allow_latest_recovery=request.allow_latest_recovery
    )
    name = config.id if config else request.managed
    await asyncio.to_thread(_be_its_consumer, (await client.session()).org_id, name, request, area)
    start = config.default_replay.lower() if config else "latest"
    if start == "latest":
        log.warning(
            "Managed subscription %s has defaultReplay LATEST: whenever its place is cleared (STOP), what came meanwhile is missed. EARLIEST has it "
            "delivered again, and it lands once.",
            request.managed,
        )
    return replace(request, initial_replay=start)


def _be_its_consumer(org_id: str, name: str, request: BatchRequest, area: StagingArea) -> None:
    try:
        consumer, where = area.subscriber(org_id, name, request.consumer)
    except StagingError:
        if request.owns:
            raise
        return  # who only waits can do without
    if consumer != request.consumer:
        raise ConfigurationError(
            f"Managed subscription {request.managed} delivers to consumer {consumer!r}: there is one place, and each of two consumers would miss "
            f"what the other gets. Give {request.consumer!r} a subscription of its own; or, if {consumer!r} is gone for good, remove {where}."
        )


async def commit_staged(client: PubSubClient, coming: Coming, folder: TopicFolder) -> None:
    """Commit the end of a whole batch that somebody has staged before, where that is not known to be done. Raises nothing of the service's."""
    if not coming.managed:
        return
    batch = folder.batch(coming.epoch, coming.sequence)
    manifest = await asyncio.to_thread(batch.read_manifest)
    if manifest is None or await asyncio.to_thread(batch.read_confirmed) == manifest.end:
        return
    async with client.managed(coming.managed, coming.topic) as managed:
        await ByManaged(managed, coming, folder).keep(manifest.end)
    tell_excess(coming, managed)


def tell_excess(coming: Coming, managed: Managed) -> None:
    """Each delivery counts against the org's allowance; those that brought nothing are named."""
    if managed.dropped:
        log.warning(
            "%d events of %s were delivered again, since Salesforce had not kept their place, and were left out: they are staged already.",
            managed.dropped,
            coming.topic,
        )
    if managed.late:
        log.info(
            "%d events of %s came after the end of the batch; they are delivered again.",
            managed.late,
            coming.topic,
        )


class ByReplayId:
    """The position says where to start."""

    def __init__(self, client: PubSubClient, topic: str) -> None:
        self._client = client
        self._topic = topic

    async def fetch(
        self,
        plan: Fetch,
        bounds: Bounds,
        receive: Receive,
        *,
        stop: asyncio.Event,
        heard: Heard | None = None,
    ) -> FetchResult:
        return await self._client.fetch(
            self._topic,
            plan.ask,
            bounds,
            receive,
            already=Progress(events=plan.events, bytes=plan.bytes),
            stop=stop,
            heard=heard,
            same_place=(plan.resume,),
        )

    async def keep(self, replay_id: str) -> None:
        """The place is ours to keep."""


class ByManaged:
    """Salesforce says where to start; `redelivery` what that means."""

    def __init__(self, managed: Managed, coming: Coming, folder: TopicFolder) -> None:
        self._managed = managed
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
        await self._make_up(plan)
        return await self._managed.fetch(
            bounds,
            receive,
            known=lambda: self._known(plan),
            place=redelivery.place_of(plan.start, plan.anchor),
            already=Progress(events=plan.events, bytes=plan.bytes),
            heard=heard,
            stop=stop,
        )

    async def keep(self, replay_id: str) -> None:
        """Commit it. Should the service not, what comes again is known; so nothing fails by it."""
        steps.reached(steps.MANAGED_COMMIT_NEXT, self._folder.batch_id)
        if why := await self._managed.commit(replay_id):
            log.warning(
                "Salesforce did not keep the end of batch %s: %s. The batch is staged and lands all the same; what is delivered again is "
                "left out.",
                self._folder.batch_id,
                why,
            )
            return
        steps.reached(steps.MANAGED_COMMITTED, self._folder.batch_id)
        try:
            await asyncio.to_thread(self._confirm, self._coming.sequence, replay_id)
        except StagingError as error:
            log.warning("That Salesforce keeps the place cannot be noted down: %s", error)

    async def _make_up(self, plan: Fetch) -> None:
        """Commit what an earlier attempt could not."""
        owed = await asyncio.to_thread(self._owed, plan)
        if not owed:
            return
        if not (why := await self._managed.commit(owed)):
            is_own = bool(plan.kept) and owed == plan.kept[-1].end
            await asyncio.to_thread(self._confirm, self._coming.sequence - (not is_own), owed)
            return
        log.info(
            "Salesforce does not keep the place %s of an earlier attempt: %s. What is delivered again is left out.",
            owed,
            why,
        )
        if plan.start == "latest":
            log.warning(
                "LOSS WINDOW on %s: nothing has been committed to managed subscription %s yet, whose defaultReplay is LATEST, so it starts at "
                "another `latest`, and what came since %s is missed.",
                self._coming.topic,
                self._coming.managed,
                owed,
            )

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
