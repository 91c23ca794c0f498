"""`SfEventsSensor`: waits until events are pending, and moves nothing."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout
from typing_extensions import override

from airflow_provider_sfevents.batches import waiting
from airflow_provider_sfevents.batches.fallback import check_choice
from airflow_provider_sfevents.batches.waiting import Heard, Pending
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import BatchClaimed, ConfigurationError
from airflow_provider_sfevents.hooks.failures import airflow_failures
from airflow_provider_sfevents.hooks.places import open_staging
from airflow_provider_sfevents.hooks.reading import ReadsTopic
from airflow_provider_sfevents.hooks.run import checked_consumer, describe_run
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.task_thread import run_async, run_async_in_thread
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.replay_ids import LATEST
from airflow_provider_sfevents.pubsub.rest.org_limits import check_least
from airflow_provider_sfevents.triggers.sfevents import SfEventsTrigger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.staging.area import StagingArea


_FOR_EVER = 10 * 365 * 24 * 3600.0
"""Seconds; a longer `timeout` is a user's way to say so, and not every one has a date."""


_LOOKS = 10
"""How often to look for a position that another task is about to begin, which takes it a moment."""


class SfEventsSensor(ReadsTopic, BaseSensorOperator):
    """Succeeds when at least `min_events` are pending after the consumer's position.

    What it receives is paid for, so it is staged as the first part of the coming batch: the next poke, its trigger, or the operator that
    fetches goes on after it. It never moves a position. Give it the same `consumer`, `position_store`, `staging` and `initial_replay` as the
    task that fetches.

    Three ways to wait: `mode="poke"` listens `idle_seconds` of every `poke_interval` and keeps its worker slot; `mode="reschedule"` gives the slot back
    between pokes; `deferrable=True` looks once in the worker, so that mistakes show at once, and then waits in the triggerer, told of an event
    the moment it comes. `mode`, `poke_interval` and `exponential_backoff` mean nothing to the third. Where nothing is known yet of a place (a first
    run at `latest`, a topic silent for 12 hours) a poke listens until the service has told one, which takes it up to 280 s.

    A wait that ends with nothing is a sensor's timeout: the task fails, and is not retried; with `soft_fail=True` it is skipped, and what comes after
    it too. Unlike Airflow's own sensors this one skips for nothing else: a wrong login, or a place that has left the bus, fails it all the same.

    Result: `batch_id`, `sequence`, `events` (known to be pending), `staged` (false: the triggerer could not write the staging area, or
    staged them where this worker does not see them; these events will be delivered a second time) and `staging_id` (of the
    staging area that they are in).

    :param topic: what to wait for: `/event/Order__e`, `/data/AccountChangeEvent`, `/data/ChangeEvents`, a channel. (templated)
    :param conn_id: connection of type `sfevents`.
    :param consumer: whose position. Default: the DAG's id. (templated)
    :param position_store: where the position is kept; with `managed` also `managed_subscription` (templated) and `allow_latest_recovery`,
        as of the task that fetches.
    :param staging: URL of the staging area; the triggerer writes it too. (templated)
    :param initial_replay: where the first run starts. (templated)
    :param replay_fallback: where to go on when the bus refuses the stored replay id.
    :param min_events: how many are enough. With `managed` leave it at 1: what was heard before is delivered anew to each further poke.
    :param max_events: the most events of the batch that follows; `min_events` cannot be more.
    :param idle_seconds: how long a poke listens.
    :param min_allowance: deliveries that the org must have left for the day, or the sensor asks for nothing and fails; looked up before each poke that
        listens and each deferral, by one API request.
    :param deferrable: wait in the triggerer. Default: Airflow's `[operators] default_deferrable`.
    """

    template_fields: Sequence[str] = (
        "topic",
        "consumer",
        "managed_subscription",
        "staging",
        "initial_replay",
    )

    keeps_position = True

    def __init__(
        self,
        *,
        topic: str,
        conn_id: str = SfEventsHook.default_conn_name,
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
        check_enough(min_events, self._bounds().max_events)
        self._check_arguments()

    @override
    def execute(self, context: Context) -> Any:
        self._until = _after(self.timeout)
        return super().execute(context)

    @override
    def poke(self, context: Context) -> PokeReturnValue:
        pending = self._find_or_pin(context) if self.deferrable else self._poke(context)
        if self.deferrable and not pending.enough:
            self._wait_on(context, pending)
        return PokeReturnValue(pending.enough, result(pending) if pending.enough else None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again after the trigger's event, whatever it says."""
        self._until = datetime.fromisoformat(event["until"])
        if event["status"] == "error":
            with self._told():
                failure = AirflowException if event["retry"] else AirflowFailException
                raise failure(event["message"])
        if event["status"] == "refused":  # a poke does what `replay_fallback` says
            pending = self._poke(context)
        else:
            pending = self._find(context, event.get("heard"))
        if not pending.enough:
            self._wait_on(context, pending)
        return result(pending)

    def _wait_on(self, context: Context, pending: Pending) -> None:
        """Defer for what is left of `timeout`."""
        left = self._until - datetime.now(UTC)
        if pending.coming is None:
            raise AirflowException(pending.why)
        if left <= timedelta():
            raise AirflowSensorTimeout(
                f"Sensor has timed out: {counted(pending.events, 'event')} pending of {self.min_events} wanted on {self.topic} after "
                f"{self.timeout:.0f} s. They stay staged for whoever comes next."
            )
        if self.min_allowance is not None:
            with self._told(), airflow_failures():
                hook, least = SfEventsHook(self.conn_id), self.min_allowance
                run_async_in_thread(lambda: hook.require_allowance(self.topic, least))
        self.defer(
            trigger=SfEventsTrigger(
                coming=pending.coming.to_dict(),
                conn_id=self.conn_id,
                staging=self.staging,
                min_events=self.min_events,
                until=self._until.isoformat(),
                run=asdict(describe_run(context)),
            ),
            method_name="execute_complete",
            timeout=left,
        )

    def _find_or_pin(self, context: Context) -> Pending:
        """Pending events as far as is known; a position at `latest` gets its replay id first.

        A triggerer has no access to every position store, so this worker listens until the service
        has sent a keepalive or an event: once in the life of a position, for up to 280 s.
        """
        pending = self._find(context)
        if pending.enough or pending.coming is None or pending.coming.start != LATEST:
            return pending
        return self._poke(context)

    def _find(self, context: Context, heard: dict[str, Any] | None = None) -> Pending:
        """Pending events as far as is known; nothing is asked of the bus."""

        async def look(
            request: BatchRequest,
            client: PubSubClient,
            area: StagingArea,
            store: Callable[[str], PositionStore],
            _: asyncio.Event,
        ) -> Pending:
            told = None if heard is None else Heard(**heard)
            looks = 1
            while True:
                pending = await waiting.find(request, self.min_events, client, area, store, told)
                if pending.coming is not None or pending.enough:
                    return pending
                if looks == _LOOKS:
                    raise BatchClaimed(pending.why)
                looks += 1
                await asyncio.sleep(1.0)

        return self._ask(context, look)

    def _poke(self, context: Context) -> Pending:
        """Listen for a while."""

        async def listen(
            request: BatchRequest,
            client: PubSubClient,
            area: StagingArea,
            store: Callable[[str], PositionStore],
            stopping: asyncio.Event,
        ) -> Pending:
            return await waiting.poke(request, self.min_events, client, area, store, stopping)

        return self._ask(context, listen)

    def _ask(self, context: Context, ask: Callable[..., Awaitable[Pending]]) -> Pending:
        with self._told(), airflow_failures():
            pending = self._run_in_thread(lambda stopping: self._asked(context, ask, stopping))
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
        """Errors fail the task even with `soft_fail=True`; otherwise an expired replay id would be skipped silently.

        With `never_fail` the task is skipped, and Airflow does not log the reason, so it is logged here.
        """
        try:
            yield
        except AirflowException as error:
            self.soft_fail = False
            if self.never_fail:
                self.log.error("%s", error)  # noqa: TRY400 - the message says all
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
        async with SfEventsHook(self.conn_id).client(self.min_allowance) as client:
            return await ask(request, client, area, store, stopping)

    def _request(self, context: Context) -> BatchRequest:
        return self._batch_request(context, self._bounds(), owns=False)

    def _bounds(self) -> Bounds:
        return Bounds(max_events=self.max_events, idle_seconds=self.idle_seconds)


def check_enough(min_events: int, max_events: int) -> None:
    """:raises ConfigurationError: a batch never has so many events, or so few are no reason to wait."""
    if type(min_events) is not int or not 1 <= min_events <= max_events:
        raise ConfigurationError(
            f"min_events={min_events!r} cannot be waited for: give a whole number from 1 to {max_events}, the most that the batch may hold "
            "(`max_events`)."
        )


def result(pending: Pending) -> dict[str, Any]:
    """The sensor's result; plain JSON."""
    coming = pending.coming
    return {
        "batch_id": coming.batch_id if coming else "",
        "sequence": coming.sequence if coming else 0,
        "events": pending.events,
        "staged": pending.staged,
        "staging_id": pending.staging_id,
    }


def _after(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=min(seconds, _FOR_EVER))
