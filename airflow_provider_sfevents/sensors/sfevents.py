"""`SfEventsSensor`: waits until events are pending, and moves no position."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout
from typing_extensions import override

from airflow_provider_sfevents.batches.position.replay_fallback import check_choice
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, LeaseHeldError
from airflow_provider_sfevents.hooks.airflow_errors import airflow_failures
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.run_context import checked_consumer, describe_run
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import open_staging
from airflow_provider_sfevents.hooks.task_thread import run_async, run_async_in_thread
from airflow_provider_sfevents.hooks.topic_arguments import ReadsTopic
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.rest.org_limits import check_least
from airflow_provider_sfevents.replay_point import LATEST
from airflow_provider_sfevents.triggers.sfevents import SfEventsTrigger
from airflow_provider_sfevents.waiting import poke
from airflow_provider_sfevents.waiting.wait_result import WaitResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.waiting.poke import Pending


_LONGEST_WAIT = 10 * 365 * 24 * 3600.0
"""Seconds: longest `timeout`, since a much longer one would exceed the range of dates."""


_LOOKS = 10
"""Looks, a second apart, for a position that another task is about to begin."""


class SfEventsSensor(ReadsTopic, BaseSensorOperator):
    """Succeeds when at least `min_events` are pending after the consumer's position.

    The org pays for the events that the sensor receives, so it stages them as the first part of the
    next batch. The next poke, its trigger, or the operator that fetches continues after them. The
    sensor never moves a position. Give it the same `consumer`, `position_store`, `staging` and
    `initial_replay` as the task that fetches.

    There are three ways to wait:

    - `mode="poke"` subscribes for `idle_seconds` of every `poke_interval` and keeps its worker
      slot.
    - `mode="reschedule"` frees the slot between pokes.
    - `deferrable=True` looks once in the worker, so that mistakes show at once. Then it waits in
      the triggerer and wakes up with the event. `mode`, `poke_interval` and `exponential_backoff`
      have no effect.

    If the position has no fresh replay id (a first run at `latest`, a topic silent for 12 hours), a
    poke waits until the service has sent one, for up to 280 s.

    A wait without enough events ends as a sensor's timeout: the task fails, and is not retried.
    With `soft_fail=True` it is skipped, with the tasks after it. Unlike Airflow's own sensors this
    one is skipped for no other reason: a wrong login, or an expired replay id, fails it.

    Result:

    - `topic`, `consumer`: of the position. A downstream task that fetches for it takes what is
      pending, and does not wait `idle_seconds`.
    - `batch_id`, `batch_number`: the next batch and its number.
    - `events`: number of events that are known to be pending.
    - `staged`: false if the triggerer could not write the staging area, or staged the events in an
      area that this worker does not see; they are then delivered a second time.
    - `staging_id`: id of the staging area that holds them.

    :param topic: topic to wait for: `/event/Order__e`, `/data/AccountChangeEvent`,
        `/data/ChangeEvents`, a channel, `/topic/Orders`, `/u/Notices`. (templated)
    :param conn_id: connection of type `sfevents`.
    :param transport: as for the task that fetches.
    :param consumer: owner of the position. Default: the DAG's id. (templated)
    :param position_store: store of the position; with `managed` also `managed_subscription`
        (templated) and `allow_latest_recovery`, as for the task that fetches.
    :param managed_subscription: see `position_store`. (templated)
    :param allow_latest_recovery: see `position_store`.
    :param staging: URL of the staging area; the triggerer writes it, too. (templated)
    :param initial_replay: start of the first run. (templated)
    :param replay_fallback: start after the bus has refused the stored replay id.
    :param min_events: number of events to wait for. With `managed` leave it at 1: earlier events
        are delivered again to each further poke.
    :param max_events: most events of the batch that follows; `min_events` cannot be more.
    :param idle_seconds: seconds that a poke stays subscribed.
    :param min_allowance: deliveries that the org must have left for the day; with fewer the sensor
        requests no event and fails. It is looked up before each subscription of a poke and each
        deferral, by one API request.
    :param deferrable: wait in the triggerer. Default: Airflow's `[operators] default_deferrable`.
    """

    template_fields: Sequence[str] = (
        "topic",
        "consumer",
        "managed_subscription",
        "staging",
        "initial_replay",
    )

    soft_fail: bool
    keeps_position = True
    announces_batches = True

    def __init__(
        self,
        *,
        topic: str,
        conn_id: str = SfEventsHook.default_conn_name,
        transport: str | None = None,
        consumer: str | None = None,
        position_store: Any = "variable",
        managed_subscription: str | None = None,
        allow_latest_recovery: bool = False,
        staging: str | None = None,
        initial_replay: str = "earliest",
        replay_fallback: str = "fail",
        min_events: int = 1,
        max_events: int = 10_000,
        idle_seconds: float = 10.0,
        min_allowance: int | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.conn_id = conn_id
        self.transport = transport
        self.consumer = checked_consumer(consumer)
        self.position_store = position_store
        self.managed_subscription = managed_subscription
        self.allow_latest_recovery = allow_latest_recovery
        self.staging = staging
        self.initial_replay = initial_replay
        self.replay_fallback = check_choice(replay_fallback)
        self.min_events = min_events
        self.max_events = max_events
        self.idle_seconds = idle_seconds
        self.min_allowance = check_least(min_allowance)
        self.deferrable = deferrable
        self._until = datetime.now(UTC)
        self._soft_fail = self.soft_fail
        check_enough(min_events, self._bounds().max_events)
        check_types(self, SfEventsSensor)
        self._check_arguments()

    @override
    def execute(self, context: Context) -> Any:
        self._until = _after(self.timeout)
        return super().execute(context)

    @override
    def poke(self, context: Context) -> PokeReturnValue:
        self.soft_fail = self._soft_fail  # with `silent_fail` there are pokes after an error
        pending = self._find_or_pin(context) if self.deferrable else self._poke(context)
        if self.deferrable and not pending.enough:
            self._wait_on(context, pending)
        return PokeReturnValue(pending.enough, result(pending) if pending.enough else None)

    @override
    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Fail, even with `soft_fail=True`, if the trigger failed: the triggerer cannot run it."""
        reason = (next_kwargs or {}).get("error")
        if next_method == TRIGGER_FAIL_REPR and reason != TriggerFailureReason.TRIGGER_TIMEOUT:
            self.soft_fail = False
        return super().resume_execution(next_method, next_kwargs, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again after the trigger's event.

        :param event: the trigger's payload (`SfEventsTrigger`).
        :return: the sensor's result.
        :raises AirflowException: the trigger failed.
        :raises AirflowFailException: the trigger failed, and a retry cannot help.
        """
        self._until = datetime.fromisoformat(event["until"])
        if event["status"] == "error":
            with self._told():
                failure = AirflowException if event["retry"] else AirflowFailException
                raise failure(event["message"])
        if event["status"] == "refused":  # a poke applies `replay_fallback`
            pending = self._poke(context)
        else:
            pending = self._find_or_pin(context, event.get("waited"))
        if not pending.enough:
            self._wait_on(context, pending)
        return result(pending)

    def _wait_on(self, context: Context, pending: Pending) -> None:
        """Defer for the rest of `timeout`.

        :raises AirflowSensorTimeout: no time is left.
        """
        left = self._until - datetime.now(UTC)
        if pending.next_batch is None:
            with self._told():
                raise AirflowException(pending.why)
        if left <= timedelta():
            raise AirflowSensorTimeout(
                f"Sensor has timed out: {counted(pending.events, 'event')} pending of "
                f"{self.min_events} wanted on {self.topic} after {self.timeout:.0f} s. They stay "
                "staged for the next wait or fetch."
            )
        if self.min_allowance is not None:
            with self._told(), airflow_failures():
                hook, least = SfEventsHook(self.conn_id), self.min_allowance
                run_async_in_thread(lambda: hook.require_allowance(self.topic, least))
        self.defer(
            trigger=SfEventsTrigger(
                next_batch=pending.next_batch.to_dict(),
                conn_id=self.conn_id,
                staging=self.staging,
                min_events=self.min_events,
                until=self._until.isoformat(),
                run=asdict(describe_run(context)),
            ),
            method_name="execute_complete",
            timeout=left,
        )

    def _find_or_pin(self, context: Context, waited: dict[str, Any] | None = None) -> Pending:
        """Find pending events; a position at `latest` gets its replay id first.

        A triggerer cannot use every position store, so this worker stays subscribed until the
        service has sent a keepalive or an event, for up to 280 s: once in the life of a position,
        and again when it is moved to `latest`, which may be while a trigger waits.

        :param waited: the trigger's result.
        """
        pending = self._find(context, waited)
        if pending.enough or pending.next_batch is None or pending.next_batch.start != LATEST:
            return pending
        return self._poke(context)

    def _find(self, context: Context, waited: dict[str, Any] | None = None) -> Pending:
        """Find pending events in the staging area, without a request to the bus.

        :param waited: the trigger's result.
        """

        async def look(
            request: BatchRequest,
            client: TopicClient,
            area: StagingArea,
            store: Callable[[str], PositionStore],
            _: asyncio.Event,
        ) -> Pending:
            told = None if waited is None else WaitResult(**waited)
            looks = 1
            while True:
                pending = await poke.find(request, self.min_events, client, area, store, told)
                if pending.next_batch is not None or pending.enough:
                    return pending
                if looks == _LOOKS:
                    raise LeaseHeldError(pending.why)
                looks += 1
                await asyncio.sleep(1.0)

        return self._ask(context, look, has_listened=False)

    def _poke(self, context: Context) -> Pending:
        """Subscribe for a while, and return the pending events."""

        async def listen(
            request: BatchRequest,
            client: TopicClient,
            area: StagingArea,
            store: Callable[[str], PositionStore],
            stopping: asyncio.Event,
        ) -> Pending:
            return await poke.poke(request, self.min_events, client, area, store, stopping)

        return self._ask(context, listen)

    def _ask(
        self,
        context: Context,
        ask: Callable[..., Awaitable[Pending]],
        *,
        has_listened: bool = True,
    ) -> Pending:
        """Return the pending events, and log their number once it is known.

        :param has_listened: `ask` subscribes; otherwise no staged event does not mean that no event
            is pending.
        """
        with self._told(), airflow_failures():
            pending = self._run_in_thread(lambda stopping: self._asked(context, ask, stopping))
        if has_listened or pending.events or pending.why:
            self.log.info(
                "%s pending of %d wanted on %s%s.",
                counted(pending.events, "event"),
                self.min_events,
                self.topic,
                f" ({pending.why})" if pending.why else "",
            )
        return pending

    def _asked(
        self, context: Context, ask: Callable[..., Awaitable[Pending]], stopping: Stopping
    ) -> Pending:
        request = self._request(context)
        area = open_staging(self.staging, self.executor)
        return run_async(
            lambda requested: self._with_client(request, area, context, ask, requested), stopping
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Fail the task on an error even with `soft_fail=True`.

        Otherwise an expired replay id would be skipped silently. With `never_fail` the task is
        skipped, and Airflow does not log the reason, so it is logged here.
        """
        try:
            yield
        except AirflowException as error:
            self.soft_fail = False
            if self.never_fail:
                self.log.error("%s", error)  # noqa: TRY400 - the message is complete
            raise

    async def _with_client(
        self,
        request: BatchRequest,
        area: StagingArea,
        context: Context,
        ask: Callable[..., Awaitable[Pending]],
        stopping: asyncio.Event,
    ) -> Pending:
        store = self._store_opener(context, request.consumer)
        async with self._client(self.min_allowance) as client:
            return await ask(request, client, area, store, stopping)

    def _request(self, context: Context) -> BatchRequest:
        return self._batch_request(context, self._bounds(), owns=False)

    def _bounds(self) -> Bounds:
        return Bounds(max_events=self.max_events, idle_seconds=self.idle_seconds)


def check_enough(min_events: int, max_events: int) -> None:
    """Check `min_events` against the bound of a batch.

    :raises ConfigurationError: it is no whole number from 1 to `max_events`.
    """
    if type(min_events) is not int or not 1 <= min_events <= max_events:
        raise ConfigurationError(
            f"min_events={min_events!r} cannot be waited for: give a whole number from 1 to "
            f"{max_events}, the most that the batch may hold (`max_events`)."
        )


def result(pending: Pending) -> dict[str, Any]:
    """Return the sensor's result; plain JSON."""
    next_batch = pending.next_batch
    return {
        "topic": next_batch.topic if next_batch else "",
        "consumer": next_batch.consumer if next_batch else "",
        "batch_id": next_batch.batch_id if next_batch else "",
        "batch_number": next_batch.batch_number if next_batch else 0,
        "events": pending.events,
        "staged": pending.staged,
        "staging_id": pending.staging_id,
    }


def _after(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=min(seconds, _LONGEST_WAIT))
