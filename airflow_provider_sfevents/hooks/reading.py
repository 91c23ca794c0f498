"""What tasks and sensors that read a topic after a position are given, and what becomes of it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches.managing import check_managed
from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.hooks.run import (
    describe_run,
    is_backfill,
    is_template,
    position_tasks,
    was_cleared,
)
from airflow_provider_sfevents.positions.opening import open_store
from airflow_provider_sfevents.positions.text import check_consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context

    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.bounds import Bounds


class ReadsTopic:
    """A part of an operator or a sensor; the attributes are the arguments of that one."""

    topic: str
    consumer: str | None
    position_store: Any
    managed_subscription: str | None
    allow_latest_recovery: bool
    initial_replay: str
    replay_fallback: str
    _stop: Callable[[], object] | None = None

    def on_kill(self) -> None:
        """End the stream; what was received stays staged. Airflow calls this on SIGTERM, in the task's process."""
        if self._stop is not None:
            self._stop()

    @contextmanager
    def _ended_by_kill(self) -> Iterator[asyncio.Event]:
        """What `on_kill` sets; for a block of the loop that runs."""
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stopping.set)
        try:
            yield stopping
        finally:
            self._stop = None

    def _check_managed(self) -> None:
        """:raises ConfigurationError: the arguments contradict each other, as far as can be said when the DAG is parsed."""
        self._managed(is_rendered=not is_template(str(self.managed_subscription)))

    def _managed(self, *, is_rendered: bool) -> str:
        return check_managed(
            self.position_store,
            self.managed_subscription,
            allow_latest_recovery=self.allow_latest_recovery,
            initial_replay=self.initial_replay,
            replay_fallback=self.replay_fallback,
            is_rendered=is_rendered,
        )

    def _batch_request(self, context: Context, bounds: Bounds, *, owns: bool) -> BatchRequest:
        """What this run asks for; see `BatchRequest.owns`."""
        run = describe_run(context)
        return BatchRequest(
            topic=self.topic,
            consumer=check_consumer(self.consumer or run.dag),
            bounds=bounds,
            initial_replay=self.initial_replay,
            replay_fallback=self.replay_fallback,
            cleared=was_cleared(context),
            backfill=is_backfill(context),
            run=run,
            owns=owns,
            managed=self._managed(is_rendered=True),
            allow_latest_recovery=self.allow_latest_recovery,
        )

    def _store_opener(self, context: Context, consumer: str) -> Callable[[str], PositionStore]:
        return lambda org_id: open_store(
            self.position_store,
            org_id=org_id,
            consumer=consumer,
            topic=self.topic,
            context=context,
            tasks=position_tasks(context),
        )
