"""Dependencies of a watcher, injectable in tests."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.shared_clients import shared_client
from airflow_provider_sfevents.pubsub.topic_names import TransportName
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient
from airflow_provider_sfevents.waiting import watch_rules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.staging.area import StagingArea


def triggerer_client(
    settings: Settings, transport: str
) -> AbstractAsyncContextManager[TopicClient]:
    """Return a client for a wait on a triggerer, by the API of its topic.

    Waits by the Pub/Sub API share a client. Each wait by the Streaming API has a session of its
    own, because a session has one replay point per topic.
    """
    if transport == TransportName.STREAMING:
        return StreamingTopicClient(settings)
    return shared_client(settings)


def _nothing(_: BatchRequest) -> None:
    """Do nothing with the news that a watcher listens."""


def _forgotten(_: BatchRequest, __: str, ___: datetime) -> None:
    """Do nothing with the last error."""


async def _silent(_: Mapping[str, Any]) -> None:
    """Do nothing with the notice of an error."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherEnvironment:
    """Interfaces and clock of a watcher. Blocking callables run in a thread.

    :param settings: reads the connection, as it is now. Blocks.
    :param area: opens the staging area, without trying it out. Blocks.
    :param store: returns the position store of an org id. Blocks.
    :param runs: returns how many runs of a DAG are queued or running; 0 if unknown. Blocks.
    :param sleep: pauses between two rounds of a watcher.
    :param look_seconds: while listening, seconds between two checks for manual changes.
    :param listening: called when a watcher begins to listen, and every `look_seconds` then. Blocks:
        the first metric of a process resolves the host of its receiver.
    :param well_seconds: seconds of listening after which the last error is over.
    :param keep_error: called with the message of a new error, and with an empty one when the
        watcher listens again; raises nothing. Blocks.
    :param notify: called with the notice of an error that is announced; raises nothing.
    :param spread: returns a random number from 0 to 1.
    """

    settings: Callable[[], Settings]
    area: Callable[[], StagingArea]
    store: Callable[[str], PositionStore]
    runs: Callable[[str], int]
    client: Callable[[Settings, str], AbstractAsyncContextManager[TopicClient]] = triggerer_client
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    look_seconds: float = watch_rules.LOOK_SECONDS
    now: Callable[[], datetime] = _now
    listening: Callable[[BatchRequest], None] = _nothing
    notify: Callable[[Mapping[str, Any]], Awaitable[None]] = _silent
    well_seconds: float = watch_rules.WELL_SECONDS
    keep_error: Callable[[BatchRequest, str, datetime], None] = _forgotten
    spread: Callable[[], float] = random.random

    async def any_run(self, dags: Iterable[str]) -> bool:
        """Return whether a run of one of these DAGs is queued or running."""
        for dag in dags:
            if await asyncio.to_thread(self.runs, dag):
                return True
        return False
