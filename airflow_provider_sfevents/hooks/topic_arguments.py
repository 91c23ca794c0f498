"""Arguments of tasks and sensors that read a topic after a position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches.managed.managed_arguments import check_managed
from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.run_context import (
    check_constant,
    describe_run,
    is_backfill,
    is_template,
    position_tasks,
    was_cleared,
)
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.stoppable import StoppableTask
from airflow_provider_sfevents.positions.record_text import check_consumer
from airflow_provider_sfevents.positions.store_choice import check_spec, open_store
from airflow_provider_sfevents.pubsub.topic_names import (
    TransportName,
    check_topic,
    check_transport,
)
from airflow_provider_sfevents.replay_point import ReplayPoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.bounds import Bounds


class ReadsTopic(StoppableTask):
    """Mixin for operators and sensors; its attributes are their arguments."""

    topic: str
    conn_id: str
    transport: str | None
    consumer: str | None
    position_store: Any
    managed_subscription: str | None
    allow_latest_recovery: bool
    initial_replay: str
    replay_fallback: str

    def _check_arguments(self) -> None:
        """Check the arguments when the DAG is parsed, as far as they are known then.

        :raises ConfigurationError: an argument is wrong, or two contradict each other.
        """
        check_constant(check_topic, self.topic)
        check_transport(self.topic, self.transport)
        if self.managed_subscription and self.transport == TransportName.STREAMING:
            raise ConfigurationError(
                "managed_subscription and transport='streaming' contradict each other: only the "
                "Pub/Sub API has managed subscriptions. Leave one of them out."
            )
        check_constant(ReplayPoint.given, self.initial_replay)
        check_spec(self.position_store)
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
        """Return the batch request of this run.

        :param owns: see `BatchRequest.owns`.
        """
        run = describe_run(context)
        return BatchRequest(
            topic=check_topic(self.topic),
            consumer=check_consumer(self.consumer or run.dag),
            bounds=bounds,
            initial_replay=ReplayPoint.given(self.initial_replay).to_text(),
            replay_fallback=self.replay_fallback,
            cleared=was_cleared(context),
            backfill=is_backfill(context),
            run=run,
            owns=owns,
            managed=self._managed(is_rendered=True),
            allow_latest_recovery=self.allow_latest_recovery,
            transport=SfEventsHook(self.conn_id).transport_of(self.topic, self.transport),
        )

    def _client(self, min_allowance: int | None) -> TopicClient:
        """Return the client of the topic's API, for `async with`."""
        hook = SfEventsHook(self.conn_id)
        return hook.topic_client(self.topic, self.transport, min_allowance=min_allowance)

    def _store_opener(self, context: Context, consumer: str) -> Callable[[str], PositionStore]:
        return lambda org_id: open_store(
            self.position_store,
            org_id=org_id,
            consumer=consumer,
            topic=self.topic,
            context=context,
            tasks=position_tasks(context),
        )
