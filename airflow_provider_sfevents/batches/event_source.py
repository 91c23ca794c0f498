"""Event sources of a batch: a plain subscription of either API, or a managed one."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents.batches.managed.managed_source import ManagedSource
from airflow_provider_sfevents.batches.position.replay_id_age import keepalive_point_at
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint
from airflow_provider_sfevents.staging import extra_deliveries
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.recovery import FetchPlan
    from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
    from airflow_provider_sfevents.pubsub.managed.managed_subscription import ManagedSubscription
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
        FetchResult,
        OnKeepalive,
        Receive,
    )
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder

log = logging.getLogger(__name__)

TopicClient = PubSubClient | StreamingTopicClient
"""Client of the API that a topic is read by."""


class FetchCall(Protocol):
    """Fetch of one batch; as `PubSubClient.fetch`, for one topic."""

    def __call__(
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
    ) -> Awaitable[FetchResult]: ...


async def _leave_to_the_position(replay_id: str) -> None:
    """Keep nothing: the position keeps the replay id of a plain subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """Event source of a fetch or a wait: a plain subscription, or a managed one.

    :param fetch: `on_keepalive` gets replay ids that are safe to continue from.
    :param keep: keeps a replay id, hex; all events up to it are in durable files.
    :param repeated: returns the extra deliveries so far, by cause as in `extra_deliveries`. A plain
        subscription delivers nothing that is staged already.
    """

    fetch: FetchCall
    keep: Callable[[str], Awaitable[None]] = _leave_to_the_position
    repeated: Callable[[], dict[str, int]] = dict


@asynccontextmanager
async def open_source(
    client: TopicClient,
    next_batch: NextBatch,
    plan: FetchPlan,
    folder: TopicFolder,
    staging_id: str,
) -> AsyncGenerator[EventSource]:
    """Yield the event source of the next batch; at the end no stream is open.

    :param plan: of the batch, as the fetch or wait begins.
    :param staging_id: of the staging area that `folder` is in; empty if it cannot be known.
    """
    if isinstance(client, StreamingTopicClient):
        yield _streamed(
            client, next_batch, await asyncio.to_thread(_listened_at, next_batch, folder)
        )
        return
    if not next_batch.managed:
        yield EventSource(fetch=partial(client.fetch, next_batch.topic))
        return
    managed = client.managed(next_batch.managed, next_batch.topic)
    source = ManagedSource(client, managed, next_batch, folder, staging_id, plan=plan)
    try:
        async with managed:
            yield EventSource(fetch=source.fetch, keep=source.keep, repeated=source.repeated)
    finally:
        await count_extra_deliveries(managed, next_batch, folder)


def _streamed(
    client: StreamingTopicClient, next_batch: NextBatch, listened_at: datetime | None
) -> EventSource:
    """Return a subscription over the Streaming API."""
    passed_over: dict[str, int] = {}

    def count(events: int) -> None:
        passed_over[extra_deliveries.BEFORE_START] = events

    async def fetch(
        start: ReplayPoint,
        bounds: Bounds,
        receive: Receive,
        *,
        already: StagedProgress,
        stop: asyncio.Event,
        on_keepalive: OnKeepalive | None,
        equal_points: tuple[ReplayPoint, ...],  # noqa: ARG001 - only shared streams join by them
        outlast: bool,
    ) -> FetchResult:
        return await client.fetch(
            next_batch.topic,
            start,
            bounds,
            receive,
            already,
            stop,
            on_keepalive,
            outlast=outlast,
            listened_at=listened_at,
            passed_over=count,
        )

    return EventSource(fetch=fetch, repeated=lambda: passed_over)


def _listened_at(next_batch: NextBatch, folder: TopicFolder) -> datetime | None:
    """Return the time up to which a subscription has shown that no event followed. Blocks."""
    point = keepalive_point_at(folder, next_batch.epoch, next_batch.batch_number - 1)
    known = [next_batch.listened_at, point.seen_at if point is not None else ""]
    return max((datetime.fromisoformat(one) for one in known if one), default=None)


SETUP_SECONDS = 900.0
"""Maximum age, in a wait, of the org's answer about a subscription's setup.

If a subscription was stopped or deleted, the Pub/Sub API refuses the stream, and the org is asked
again. A change of errorRecoveryReplay matters only after the committed replay id has expired (72
hours)."""


async def resolve_first_start(
    request: BatchRequest,
    client: TopicClient,
    area: StagingArea,
    *,
    max_age_seconds: float = 0.0,
) -> BatchRequest:
    """Return the request with the managed subscription's replay point of a first run.

    A request without a managed subscription is returned as it is.

    :param max_age_seconds: maximum age of an answer that this process has got before; 0: the org is
        asked.
    :raises ConfigurationError: the subscription's setup does not fit, or it delivers to another
        consumer.
    """
    if not request.managed:
        return request
    config = await client.managed(request.managed, request.topic).config(
        allow_latest_recovery=request.allow_latest_recovery, max_age_seconds=max_age_seconds
    )
    name = config.id if config else request.managed
    await asyncio.to_thread(_be_its_consumer, (await client.session()).org_id, name, request, area)
    start = config.default_replay.lower() if config else LATEST.to_text()
    if start == LATEST.to_text():
        log.warning(
            "Managed subscription %s has defaultReplay LATEST: whenever its committed replay id "
            "is cleared (STOP, or the subscription is created anew), events published meanwhile "
            "are missed, and no loss window says so. With EARLIEST they are delivered again, and "
            "land once.",
            request.managed,
        )
    return replace(request, initial_replay=start)


def _be_its_consumer(org_id: str, name: str, request: BatchRequest, area: StagingArea) -> None:
    try:
        consumer, where = area.subscriber(org_id, name, request.consumer)
    except StagingError:
        if request.owns:
            raise
        return  # a wait works without that record
    if consumer != request.consumer:
        raise ConfigurationError(
            f"Managed subscription {request.managed} delivers to consumer {consumer!r}: there is "
            "one committed replay id, and each of two consumers would miss the other's events. "
            f"Give {request.consumer!r} a subscription of its own; or, if {consumer!r} is not used "
            f"any more, remove {where}."
        )


async def commit_staged(
    client: TopicClient,
    next_batch: NextBatch,
    folder: TopicFolder,
    staging_id: str,
    stop: asyncio.Event,
) -> None:
    """Commit the end of a batch that an earlier task has staged, unless that is known to be done.

    Errors of the service are logged, not raised.

    :param stop: when set, ends the wait for another client of the subscription to leave.
    """
    if not next_batch.managed or isinstance(client, StreamingTopicClient):
        return
    batch = folder.batch(next_batch.epoch, next_batch.batch_number)
    manifest = await asyncio.to_thread(batch.read_manifest)
    if manifest is None or await asyncio.to_thread(batch.read_confirmed) == manifest.end:
        return
    async with client.managed(next_batch.managed, next_batch.topic) as managed:
        source = ManagedSource(client, managed, next_batch, folder, staging_id, stop=stop)
        await source.keep(manifest.end)


async def count_extra_deliveries(
    managed: ManagedSubscription, next_batch: NextBatch, folder: TopicFolder
) -> None:
    """Log the extra deliveries of a managed subscription, and count them beside the batch.

    Each delivery counts against the org's allowance.
    """
    if managed.dropped:
        log.warning(
            "Left out %s of %s: staged already and delivered again, because Salesforce had not "
            "kept the replay id.",
            counted(managed.dropped, "event"),
            next_batch.topic,
        )
    if managed.late:
        log.info(
            "Dropped %s of %s that came after the end of the batch; they are delivered again.",
            counted(managed.late, "event"),
            next_batch.topic,
        )
    count = {
        extra_deliveries.STAGED_BEFORE: managed.dropped,
        extra_deliveries.AFTER_END: managed.late,
    }
    batch = folder.batch(next_batch.epoch, next_batch.batch_number)
    try:
        await asyncio.to_thread(batch.count_extra_deliveries, count)
    except StagingError as error:
        log.warning("Could not record the number of redelivered events: %s", error)
