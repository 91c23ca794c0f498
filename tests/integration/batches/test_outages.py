"""Outages of the service, the position store and the staging area, at each step of a batch."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from airflow_provider_sfevents.batches.commit import COMMIT_SECONDS, commit_batch
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import SfEventsError, StagingError, TransportError
from airflow_provider_sfevents.operators.batch_commit import tell_error
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.staging import layout
from tests.integration.batches.conftest import (
    TOPIC,
    Consumer,
    publish,
    staged_ids,
    until,
    write_receipt,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.outcome import Empty
    from airflow_provider_sfevents.emulator import Emulator


def stage_through_an_outage(bus: Emulator, consumer: Consumer, refusals: int) -> Staged | Empty:
    """Stage a batch; after ten of fifteen events the service refuses so many tries."""
    publish(bus, 1, 10)
    bus.fail_next("Subscribe", status="UNAVAILABLE", after=10)
    bus.fail_next("Subscribe", status="UNAVAILABLE", times=refusals)

    async def stage() -> Staged | Empty:
        staging = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: sum(call.rpc == "Subscribe" for call in bus.requests) > 1)
        publish(bus, 11, 5)
        return await staging

    return asyncio.run(stage())


def test_an_outage_after_the_first_event_is_waited_out(bus: Emulator, consumer: Consumer) -> None:
    """A batch holds the events before and after a short outage, each delivered once."""
    consumer.bounds = Bounds(max_seconds=60, max_events=15, idle_seconds=30)
    staged = stage_through_an_outage(bus, consumer, refusals=3)
    assert isinstance(staged, Staged)
    assert (staged.manifest.ended_by, staged.manifest.error) == ("max_events", "")
    landed = staged_ids(consumer, staged)
    assert (len(landed), landed) == (15, sorted(set(landed)))
    assert bus.deliveries(TOPIC) == 15
    staged.release()


def test_an_outage_that_lasts_closes_the_batch(
    bus: Emulator, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A long outage closes the batch at `max_seconds`, and the next run takes the rest."""
    consumer.bounds = Bounds(max_seconds=4, idle_seconds=30)
    staged = stage_through_an_outage(bus, consumer, refusals=1000)
    assert isinstance(staged, Staged)
    assert (staged.manifest.ended_by, staged.manifest.events) == ("lost", 10)
    write_receipt(staged)
    commit_batch(staged, consumer.run, keep_batches=10)
    staged.release()
    caplog.set_level(logging.WARNING)
    tell_error(staged)
    assert "the next run fetches them" in caplog.text
    bus.clear_faults()
    consumer.bounds = Bounds(max_events=5, idle_seconds=30)
    further = consumer.run_once()
    landed = staged_ids(consumer, staged) + staged_ids(consumer, further)
    assert (len(landed), landed) == (15, sorted(set(landed)))
    assert bus.deliveries(TOPIC) == 15


@pytest.mark.parametrize("rpc", ["Subscribe", "GetTopic", "token"])
def test_an_outage_before_the_first_event_is_waited_out(
    bus: Emulator, consumer: Consumer, rpc: str
) -> None:
    """Login, topic and stream are retried during an outage while `max_seconds` lasts."""
    ids = publish(bus, 1, 5)
    consumer.bounds = Bounds(max_seconds=60, idle_seconds=0.3)
    bus.fail_next(rpc, times=4, status="" if rpc == "token" else "UNAVAILABLE")
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert bus.deliveries(TOPIC) == 5


@pytest.mark.parametrize("rpc", ["Subscribe", "GetTopic"])
def test_an_outage_that_outlasts_the_fetch_is_a_retry(
    bus: Emulator, consumer: Consumer, rpc: str
) -> None:
    """An outage without an event fails the try at `max_seconds`, and releases the lease."""
    ids = publish(bus, 1, 5)
    consumer.bounds = Bounds(max_seconds=2, idle_seconds=30)
    bus.fail_next(rpc, status="UNAVAILABLE", times=1000)
    with pytest.raises(TransportError):
        consumer.stage()
    tried = sum(call.rpc == rpc for call in bus.requests)
    assert tried > 1
    assert held(consumer) == []
    bus.clear_faults()
    consumer.bounds = Bounds(idle_seconds=0.3)
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert bus.deliveries(TOPIC) == 5


def held(consumer: Consumer) -> list[str]:
    """Return the leases that were not released."""
    leases = consumer.root.rglob(f"{layout.LEASES}/*.json")
    return [str(one) for one in leases if not one.with_suffix(".released").exists()]


@dataclass
class Time:
    """A clock that moves by the waiting time.

    :param stops_at: time at which the task is ended; never by default.
    """

    now: float = 0.0
    stops_at: float = float("inf")

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, chance=lambda: 0.5)

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.stops_at


@dataclass
class AwayStore(MappingStore):
    """A store that does not answer until a time.

    :param reads: it can be read meanwhile.
    """

    time: Time = field(default_factory=Time)
    until: float = 0.0
    reads: bool = False
    error: type[SfEventsError] = TransportError

    def __init__(self, consumer: Consumer, time: Time, until: float) -> None:
        super().__init__(consumer.positions, "orders")
        self.time, self.until = time, until

    @override
    def get(self) -> str | None:
        if self.time.now < self.until and not self.reads:
            raise self.error("The store is away.")
        return super().get()

    @override
    def set(self, record: str) -> None:
        if self.time.now < self.until:
            raise self.error("The store is away.")
        super().set(record)


def landed_with(consumer: Consumer, bus: Emulator, store: AwayStore) -> Staged:
    """Return a batch that has landed while its store is away, after `max_seconds`."""
    publish(bus, 1, 5)
    consumer.bounds = Bounds(max_seconds=0.5, idle_seconds=30)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    write_receipt(staged)
    return replace(staged, store=store)


@pytest.mark.parametrize("error", [TransportError, StagingError])
@pytest.mark.parametrize("reads", [False, True], ids=["away", "read only"])
@pytest.mark.parametrize("seconds", [5.0, 30.0, 100.0])
def test_the_commit_of_a_landed_batch_outlasts_its_store(
    bus: Emulator, consumer: Consumer, seconds: float, reads: bool, error: type[SfEventsError]
) -> None:
    """A commit is retried for `commit_seconds` after the landing, also beyond `max_seconds`."""
    time = Time()
    store = AwayStore(consumer, time, until=seconds)
    store.reads, store.error = reads, error
    staged = landed_with(consumer, bus, store)
    commit_batch(staged, consumer.run, 10, wait=time.wait, clock=time.clock)
    assert consumer.position.batch_id == staged.manifest.batch_id
    assert seconds <= time.now <= COMMIT_SECONDS
    staged.release()


@pytest.mark.parametrize("commit_seconds", [0.0, 30.0, COMMIT_SECONDS])
def test_a_store_that_stays_away_leaves_the_commit_to_the_next_try(
    bus: Emulator, consumer: Consumer, commit_seconds: float
) -> None:
    """After `commit_seconds` the try fails, and the next one commits without Spark or delivery."""
    time = Time()
    staged = landed_with(consumer, bus, AwayStore(consumer, time, until=10_000))
    delivered = bus.deliveries(TOPIC)
    with pytest.raises(TransportError, match="The store is away"):
        commit_batch(
            staged,
            consumer.run,
            10,
            commit_seconds=commit_seconds,
            wait=time.wait,
            clock=time.clock,
        )
    assert time.now <= commit_seconds
    staged.release()
    commits_without_a_delivery(bus, consumer, staged, delivered)


def test_a_task_that_is_ended_while_its_store_is_away(bus: Emulator, consumer: Consumer) -> None:
    """A stop ends the retries of a commit at once, and the next try commits from the receipt."""
    time = Time(stops_at=1.0)
    staged = landed_with(consumer, bus, AwayStore(consumer, time, until=60))
    delivered = bus.deliveries(TOPIC)
    with pytest.raises(TransportError, match="The store is away"):
        commit_batch(staged, consumer.run, 10, wait=time.wait, clock=time.clock)
    assert time.now < 3
    staged.release()
    commits_without_a_delivery(bus, consumer, staged, delivered)


def commits_without_a_delivery(
    bus: Emulator, consumer: Consumer, staged: Staged, delivered: int
) -> None:
    consumer.run = replace(consumer.run, try_number=consumer.run.try_number + 1)
    streams = len(bus.subscriptions)
    after = consumer.stage()
    assert isinstance(after, Staged)
    assert (after.reused, after.landed) == (True, True)
    commit_batch(after, consumer.run, keep_batches=10)
    after.release()
    assert consumer.position.batch_id == staged.manifest.batch_id
    assert (bus.deliveries(TOPIC), len(bus.subscriptions)) == (delivered, streams)
