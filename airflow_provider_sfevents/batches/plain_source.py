"""Event source of a plain subscription, which starts at a given replay id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.bounds import StagedProgress

if TYPE_CHECKING:
    import asyncio

    from airflow_provider_sfevents.batches.recovery import Fetch
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
        FetchResult,
        OnKeepalive,
        Receive,
    )


def progress_of(plan: Fetch) -> StagedProgress:
    """Count what is staged of the batch towards its bounds."""
    return StagedProgress(events=plan.events, bytes=plan.bytes, until_reached=plan.until_reached)


class ByReplayId:
    """Starts at the position's replay point."""

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
        heard: OnKeepalive | None = None,
        outlast: bool = False,
    ) -> FetchResult:
        return await self._client.fetch(
            self._topic,
            plan.subscribe_at,
            bounds,
            receive,
            already=progress_of(plan),
            stop=stop,
            on_keepalive=heard,
            equal_points=(plan.resume,),
            outlast=outlast,
        )

    async def keep(self, replay_id: str) -> None:
        """Do nothing: the position keeps the replay id."""

    def repeated(self) -> dict[str, int]:
        """Return no counts: a plain subscription delivers nothing that is staged already."""
        return {}
