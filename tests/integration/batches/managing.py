"""A consumer of an emulated managed subscription without Airflow: stage, land by hand, commit."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import BatchRequest, Empty, Staged
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.waiting.poke import Pending, poke
from tests.harness.process_time import process_time
from tests.integration.batches.conftest import TOPIC, Consumer, Waiter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedConfig
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.waiting.wait_result import WaitResult

NAME = "Orders"
QUICK = {
    "half_close_seconds": 0.01,
    "keepalive_seconds": 0.3,
    "slot_hold_seconds": 0.05,
    "commit_response_seconds": 0.02,
    "managed_propagation_seconds": 0.0,
}
PATIENT = Timeouts(slot_seconds=2.0, propagation_seconds=2.0, commit_seconds=3.0)


@dataclass
class ManagedConsumer(Consumer):
    """As `Consumer`, from a managed subscription."""

    managed: str = NAME
    consumer: str = "orders"
    allow_latest_recovery: bool = False
    timeouts: Timeouts = PATIENT
    later: float = 0.0  # seconds that its clock is ahead
    bounds: Bounds = field(default_factory=lambda: Bounds(idle_seconds=0.4, max_seconds=120))

    @property
    def topic_folder(self) -> TopicFolder:
        return StagingArea(UPath(self.root)).topic(self.bus.org.org_id, "orders", self.topic)

    @override
    def client(self, **more: Any) -> PubSubClient:
        return PubSubClient(
            self.settings,
            clock=Clock(chance=lambda: 0.0, monotonic=lambda: process_time() + self.later),
            timeouts=self.timeouts,
            **more,
        )

    @override
    async def stage_until(self, stopping: asyncio.Event) -> Staged | Empty:
        request = BatchRequest(
            topic=self.topic,
            consumer=self.consumer,
            bounds=self.bounds,
            run=self.run,
            cleared=self.cleared,
            backfill=self.backfill,
            learn_seconds=5,
            managed=self.managed,
            allow_latest_recovery=self.allow_latest_recovery,
        )
        async with self.client() as client:
            area = StagingArea(UPath(self.root))
            return await stage_batch(request, client, area, lambda _: self.store, stopping)

    @property
    def config(self) -> ManagedConfig:
        return next(
            one for one in self.bus.managed_subscriptions if one.developer_name == self.managed
        )

    @property
    def committed(self) -> str:
        """Replay id after which the service would start, hex."""
        return self.config.committed


@dataclass
class ManagedWaiter(Waiter):
    """As `Waiter`, on a managed subscription."""

    @property
    @override
    def request(self) -> BatchRequest:
        assert isinstance(self.consumer, ManagedConsumer)
        return replace(
            super().request,
            initial_replay="earliest",
            replay_fallback="fail",
            managed=self.consumer.managed,
            allow_latest_recovery=self.consumer.allow_latest_recovery,
        )

    @override
    async def poke_until(self, stopping: asyncio.Event) -> Pending:
        assert isinstance(self.consumer, ManagedConsumer)
        async with self.consumer.client() as client:
            return await poke(
                self.request,
                self.min_events,
                client,
                self.area,
                lambda _: self.consumer.store,
                stopping,
            )

    @override
    async def wait(self, next_batch: NextBatch) -> WaitResult:
        assert isinstance(self.consumer, ManagedConsumer)
        async with self.consumer.client(share_streams=True) as client:
            return await self.wait_with(client, next_batch)


_INTERFERING: dict[str, Callable[[], object]] = {}


def _hear(event: str, said: tuple[object, ...]) -> None:
    if event == steps.EVENT and said[0] in _INTERFERING:
        _INTERFERING[str(said[0])]()


sys.addaudithook(_hear)  # for the life of the process; it acts only in `at_step`


@contextmanager
def at_step(step: str, do: Callable[[], object]) -> Iterator[None]:
    """Call a function whenever the package reaches this step."""
    _INTERFERING[step] = do
    try:
        yield
    finally:
        del _INTERFERING[step]


@contextmanager
def commits_lost(bus: Emulator) -> Iterator[None]:
    """Break the stream just before each commit; the service accepts none on another stream."""
    with at_step(steps.MANAGED_COMMIT_NEXT, lambda: bus.drop_connections("rst_stream")):
        yield


@contextmanager
def managed_bus(**knobs: Any) -> Iterator[Emulator]:
    """A bus with one topic, on which managed subscriptions answer quickly."""
    with Emulator(knobs=Knobs(**{**QUICK, **knobs})) as bus:
        bus.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield bus


def define(bus: Emulator, **settings: str) -> ManagedConfig:
    """Define the subscription; by default one that loses no event."""
    values = {"default_replay": "EARLIEST", "error_recovery_replay": "EARLIEST", **settings}
    return bus.define_managed_subscription(NAME, TOPIC, **values)


def refused(task: Callable[[], object]) -> str:
    """The message with which a task or a sensor is refused."""
    with pytest.raises(ConfigurationError) as caught:
        task()
    return str(caught.value)
