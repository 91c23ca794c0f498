"""The triggers: the wait of a deferred sensor, and the watcher that starts DAG runs for a topic.

Neither blocks the triggerer's loop: stores, staging area and Airflow's own interfaces are called in
threads. Triggers of one connection share its channel, and triggers at the same replay id of a topic
share its stream. They stage the events that they receive as the first part of the next batch, so
that a fetch continues after them, and no event is delivered twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
from typing_extensions import override

from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.position.position_metrics import Metric
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.hooks.airflow_errors import NEVER_RETRIED
from airflow_provider_sfevents.hooks.outgoing.notifiers import find_notifier, notify_from_trigger
from airflow_provider_sfevents.hooks.outgoing.task_metrics import emit_in_triggerer
from airflow_provider_sfevents.hooks.outgoing.watch_errors import keep_watch_error
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.positions.store_choice import open_store
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Run
from airflow_provider_sfevents.triggers.arguments import check_watch
from airflow_provider_sfevents.waiting import trigger_wait, watch_rules
from airflow_provider_sfevents.waiting.watch_environment import (
    WatcherEnvironment,
    triggerer_client,
)
from airflow_provider_sfevents.waiting.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from airflow_provider_sfevents.waiting.wait_result import WaitResult

log = logging.getLogger(__name__)

_AT_WORK = ["queued", "running"]


class SfEventsTrigger(BaseTrigger):
    """Waits for a batch to have enough events; for `SfEventsSensor`.

    Its one event has a `status`: `pending` (enough events came), `look_again` (another task took
    the batch), `timeout`, `refused` (the bus does not know the replay id) or `error`. An event that
    is lost, or sent twice, does no harm: the sensor reads the staged files.

    :param next_batch: the batch, as `NextBatch.to_dict` returns it.
    :param conn_id: connection of type `sfevents`; these arguments hold no secret.
    :param staging: URL of the staging area, as given to the sensor.
    :param min_events: number of events to wait for.
    :param until: end of the wait; ISO 8601.
    :param run: the waiting task instance, as a dict of `Run`.
    """

    def __init__(
        self,
        *,
        next_batch: dict[str, Any],
        conn_id: str,
        staging: str | None,
        min_events: int,
        until: str,
        run: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.next_batch = next_batch
        self.conn_id = conn_id
        self.staging = staging
        self.min_events = min_events
        self.until = until
        self.run_of = run

    @override
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", {
            "next_batch": self.next_batch,
            "conn_id": self.conn_id,
            "staging": self.staging,
            "min_events": self.min_events,
            "until": self.until,
            "run": self.run_of,
        }

    @override
    async def run(self) -> AsyncGenerator[TriggerEvent]:
        yield TriggerEvent({**await self._outcome(), "until": self.until})

    async def _outcome(self) -> dict[str, Any]:
        patience = asyncio.timeout(self._left())
        try:
            async with patience:
                waited = await self._hear()
        except TimeoutError:
            if not patience.expired():
                raise
            return {"status": "timeout"}
        except ReplayIdRefusedError as error:
            return {"status": "refused", "message": str(error)}
        except SfEventsError as error:
            retry = not isinstance(error, NEVER_RETRIED)
            return {"status": "error", "message": str(error), "retry": retry}
        enough = waited.events >= self.min_events
        return {"status": "pending" if enough else "look_again", "waited": asdict(waited)}

    def _left(self) -> float:
        return max(0.0, (datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds())

    async def _hear(self) -> WaitResult:
        """Return the result of the wait; failures of network or service are retried."""
        next_batch = NextBatch.from_dict(self.next_batch)
        log.info(
            "Waiting for %s on %s after %s (batch %s), until %s.",
            counted(self.min_events, "event"),
            next_batch.topic,
            next_batch.start,
            next_batch.batch_id,
            self.until,
        )
        tries = 0
        while True:
            try:
                return await self._wait(next_batch)
            except QuotaExceededError:
                raise
            except TransportError as error:
                tries += 1
                pause = watch_rules.backoff(tries, random.random())  # noqa: S311 - spreads load
                log.warning(
                    "The wait for %s failed; trying again in %.0f s: %s",
                    next_batch.topic,
                    pause,
                    error,
                )
                await asyncio.sleep(pause)

    async def _wait(self, next_batch: NextBatch) -> WaitResult:
        settings = await asyncio.to_thread(SfEventsHook(self.conn_id).settings)
        area = StagingArea(await asyncio.to_thread(staging_root, self.staging))
        async with triggerer_client(settings, next_batch.transport) as client:
            return await trigger_wait.wait(
                next_batch, self.min_events, client, area, run=Run(**self.run_of)
            )


class SfEventsWatchTrigger(BaseEventTrigger):
    """Watches a topic for a consumer, and starts a DAG run when events are pending.

    It belongs in an `AssetWatcher`. It stages the events that come, and announces each batch once,
    however many events it has; the run's task then fetches the pending events. The next
    announcement is made after the position has moved past the batch, at once if more events have
    come by then. If the run fails, the batch is announced again, each time after twice as long.

    A problem that a person must fix (login, topic, replay id, position) is announced, too, with 0
    events, so that a run fails and shows it.

    Payload: `{topic, consumer, batch_id, batch_number, events, staged}`, and `trouble` if there is
    a problem.

    :param topic: topic to watch, such as `/event/Order__e`.
    :param consumer: owner of the position: the id of the DAG that fetches, or the `consumer` of its
        task.
    :param conn_id: connection of type `sfevents`.
    :param transport: as for the task that fetches.
    :param position_store: as for the task that fetches: `variable`, `asset`, `managed`, or the
        dotted path of your own store. Not `xcom`, which only tasks can read.
    :param managed_subscription: as for the task that fetches. While the watcher is subscribed it
        uses the subscription's one slot; it yields the slot to a task that has taken the batch.
    :param allow_latest_recovery: as for the task that fetches.
    :param staging: as for the task that fetches.
    :param initial_replay: as for the task that fetches; the watcher may begin the position.
    :param max_events: number of staged events that are announced at once; at most the task's
        `max_events`.
    :param max_wait: seconds after the first event until fewer events are announced, if a run of the
        DAG is queued or running. Without such a run the first events are announced at once.
    :param again_after: seconds until a batch is announced again that no run has committed or works
        on.
    :param notifier: dotted path of a notifier, which is called with each problem that is announced
        (docs/how-to/alerts.md).
    """

    def __init__(
        self,
        topic: str,
        consumer: str,
        *,
        conn_id: str = SfEventsHook.default_conn_name,
        transport: str | None = None,
        position_store: Any = "variable",
        managed_subscription: str | None = None,
        allow_latest_recovery: bool = False,
        staging: str | None = None,
        initial_replay: str = "earliest",
        max_events: int = 100,
        max_wait: float = 2.0,
        again_after: float = 900.0,
        notifier: str | None = None,
    ) -> None:
        super().__init__()
        self.topic = topic
        self.consumer = consumer
        self.conn_id = conn_id
        self.transport = transport
        self.position_store = position_store
        self.managed_subscription = managed_subscription
        self.allow_latest_recovery = allow_latest_recovery
        self.staging = staging
        self.initial_replay = initial_replay
        self.max_events = max_events
        self.max_wait = max_wait
        self.again_after = again_after
        self.notifier = notifier
        self._rules = check_watch(self)

    @override
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", {
            "topic": self.topic,
            "consumer": self.consumer,
            "conn_id": self.conn_id,
            "position_store": self.position_store,
            **self._unusual(),
            "staging": self.staging,
            "initial_replay": self.initial_replay,
            "max_events": self.max_events,
            "max_wait": self.max_wait,
            "again_after": self.again_after,
        }

    @override
    async def run(self) -> AsyncGenerator[TriggerEvent]:
        if self.task_instance is not None:
            raise ConfigurationError(
                "SfEventsWatchTrigger schedules DAGs, and no task waits for it: give it to an "
                "AssetWatcher of an asset that a DAG is scheduled by. For a task that waits, use "
                "an SfEventsSensor with deferrable=True."
            )
        request = BatchRequest(
            topic=self.topic,
            consumer=self.consumer,
            initial_replay=self.initial_replay,
            owns=False,
            managed=self.managed_subscription or "",
            allow_latest_recovery=self.allow_latest_recovery,
        )
        watcher = Watcher(request, self._rules, self._around(), self.transport or "")
        async with aclosing(watcher.announcements()) as announcements:
            async for announcement in announcements:
                yield TriggerEvent(announcement)

    def _unusual(self) -> dict[str, Any]:
        """Return the arguments for transport, notifier and managed subscription, if given.

        A trigger is identified by its arguments, so an unused one would make another trigger.
        """
        optional = {"transport": self.transport, "notifier": self.notifier}
        chosen = {name: value for name, value in optional.items() if value}
        if not self.managed_subscription:
            return chosen
        return {
            **chosen,
            "managed_subscription": self.managed_subscription,
            "allow_latest_recovery": self.allow_latest_recovery,
        }

    def _around(self) -> WatcherEnvironment:
        return WatcherEnvironment(
            settings=SfEventsHook(self.conn_id).settings,
            area=lambda: StagingArea(staging_root(self.staging)),
            store=lambda org_id: open_store(
                self.position_store, org_id=org_id, consumer=self.consumer, topic=self.topic
            ),
            runs=runs_at_work,
            listening=_tell_listening,
            keep_error=_keep_error,
            **self._notified(),
        )

    def _notified(self) -> dict[str, Any]:
        if not self.notifier:
            return {}
        return {"notify": partial(notify_from_trigger, find_notifier(self.notifier))}


def _tell_listening(request: BatchRequest) -> None:
    """Measure the time at which a watcher listened."""
    labels = {"consumer": request.consumer, "topic": request.topic}
    seen = Metric(name="watcher_seen_time", value=datetime.now(UTC).timestamp(), labels=labels)
    emit_in_triggerer([seen])


def _keep_error(request: BatchRequest, message: str, at: datetime) -> None:
    """Keep the last error of a watcher in Airflow's database."""
    keep_watch_error(request.consumer, request.topic, message, at)


def runs_at_work(dag_id: str) -> int:
    """Return the number of runs of a DAG that are queued or running.

    It is 0 if Airflow does not answer: events are then announced once too often rather than never.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        return int(RuntimeTaskInstance.get_dr_count(dag_id, states=_AT_WORK))
    except Exception as error:  # noqa: BLE001 - Airflow's API raises many kinds of errors
        log.debug("The runs of DAG %s could not be counted: %s", dag_id, error)
        return 0
