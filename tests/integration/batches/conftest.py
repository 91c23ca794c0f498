"""A consumer of an emulated topic without Airflow: stage, land by hand, commit."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from upath import UPath

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import BatchRequest, Empty, Staged
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.positions.activity import Commit
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Receipt, Run
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient
from airflow_provider_sfevents.waiting.poke import Pending, find, poke
from airflow_provider_sfevents.waiting.trigger_wait import wait
from tests.harness.process_time import process_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.waiting.wait_result import WaitResult

TOPIC = "/event/Order__e"


@dataclass
class Consumer:
    """One task of one DAG, run by run."""

    bus: Emulator
    root: Path
    positions: dict[str, str] = field(default_factory=dict)
    run: Run = field(default_factory=lambda: Run(dag="orders", run="r1", task="land"))
    topic: str = TOPIC
    initial_replay: str = "earliest"
    replay_fallback: str = "fail"
    cleared: bool = False
    backfill: bool = False
    announced_batch: str = ""
    bounds: Bounds = field(default_factory=lambda: Bounds(idle_seconds=0.4))
    transport: str = "pubsub"
    sessions: int = 10

    @property
    def store(self) -> MappingStore:
        return MappingStore(self.positions, "orders")

    @property
    def position(self) -> Position:
        return Position.from_json(self.positions["orders"], "here")

    @property
    def settings(self) -> Settings:
        org = self.bus.connection()
        return Settings(
            login=ClientCredentials(
                login_url=org["host"], client_id=org["login"], client_secret=Secret(org["password"])
            ),
            endpoint=self.bus.endpoint,
            plaintext=True,
            streaming_sessions=self.sessions,
        )

    def client(self, *, share_streams: bool = False) -> PubSubClient:
        """A client whose clock stops while this process stands still."""
        clock = Clock(monotonic=process_time)
        return PubSubClient(self.settings, clock=clock, share_streams=share_streams)

    def topic_client(self, *, share_streams: bool = False) -> TopicClient:
        """A client of the consumer's transport."""
        if self.transport == "pubsub":
            return self.client(share_streams=share_streams)
        return StreamingTopicClient(self.settings, clock=Clock(monotonic=process_time))

    def stage(self) -> Staged | Empty:
        return asyncio.run(self.stage_until(asyncio.Event()))

    async def stage_until(self, stopping: asyncio.Event) -> Staged | Empty:
        request = BatchRequest(
            topic=self.topic,
            consumer="orders",
            bounds=self.bounds,
            run=self.run,
            initial_replay=self.initial_replay,
            replay_fallback=self.replay_fallback,
            cleared=self.cleared,
            backfill=self.backfill,
            announced_batch=self.announced_batch,
            learn_seconds=5,
            transport=self.transport,
        )
        async with self.topic_client() as client:
            area = StagingArea(UPath(self.root))
            return await stage_batch(request, client, area, lambda _: self.store, stopping)

    def run_once(self) -> Staged | Empty:
        """Run a whole task: stage, land, commit."""
        staged = self.stage()
        if isinstance(staged, Staged):
            write_receipt(staged)
            commit_batch(staged, self.run, keep_batches=10)
            staged.release()
        return staged


@dataclass
class Waiter:
    """A sensor of the same DAG, or a triggerer, ahead of the consumer's task.

    :param root: its staging area, if it is another one.
    """

    consumer: Consumer
    min_events: int = 1
    run: Run = field(default_factory=lambda: Run(dag="orders", run="r1", task="wait"))
    bounds: Bounds = field(default_factory=lambda: Bounds(idle_seconds=0.2))
    root: Path | None = None
    learn_seconds: float = 5.0
    gather_seconds: float = 5.0

    @property
    def area(self) -> StagingArea:
        return StagingArea(UPath(self.root or self.consumer.root))

    @property
    def request(self) -> BatchRequest:
        consumer = self.consumer
        return BatchRequest(
            topic=consumer.topic,
            consumer="orders",
            bounds=self.bounds,
            run=self.run,
            initial_replay=consumer.initial_replay,
            replay_fallback=consumer.replay_fallback,
            cleared=consumer.cleared,
            backfill=consumer.backfill,
            learn_seconds=self.learn_seconds,
            owns=False,
            transport=consumer.transport,
        )

    def poke(self) -> Pending:
        return asyncio.run(self.poke_until(asyncio.Event()))

    async def poke_until(self, stopping: asyncio.Event) -> Pending:
        async with self.consumer.topic_client() as client:
            return await poke(
                self.request,
                self.min_events,
                client,
                self.area,
                lambda _: self.consumer.store,
                stopping,
            )

    def find(self, told: WaitResult | None = None) -> Pending:
        async def run() -> Pending:
            async with self.consumer.topic_client() as client:
                return await find(
                    self.request,
                    self.min_events,
                    client,
                    self.area,
                    lambda _: self.consumer.store,
                    told,
                )

        return asyncio.run(run())

    def next_batch(self) -> NextBatch:
        """Return the next batch, as a worker finds it before it defers."""
        next_batch = self.find().next_batch
        assert next_batch is not None
        return next_batch

    async def wait(self, next_batch: NextBatch) -> WaitResult:
        """Wait as in a triggerer of its own."""
        async with self.consumer.topic_client(share_streams=True) as client:
            return await self.wait_with(client, next_batch)

    async def wait_with(self, client: TopicClient, next_batch: NextBatch) -> WaitResult:
        return await wait(
            next_batch,
            self.min_events,
            client,
            self.area,
            run=self.run,
            poll_seconds=0.05,
            gather_seconds=self.gather_seconds,
        )


@pytest.fixture
def waiter(consumer: Consumer) -> Waiter:
    return Waiter(consumer=consumer)


async def until(true: Callable[[], object], seconds: float = 100.0) -> None:
    """Wait for a condition that another thread or task brings about."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - the emulator works in another thread
            await asyncio.sleep(0.01)


def staged_ids(consumer: Consumer, staged: Staged | Empty) -> list[str]:
    """Replay ids of a staged batch, in hex."""
    assert isinstance(staged, Staged)
    folder = consumer.root / staged.folder.folder.relative_to(consumer.root)
    tables = [pq.read_table(folder / part.path) for part in staged.manifest.parts]
    return [one.hex() for table in tables for one in table[layout.REPLAY_ID].to_pylist()]


def write_receipt(staged: Staged, *, missing: int = 0) -> None:
    """Write the receipt of a landed batch, less so many rows."""
    receipt = Receipt(
        batch_id=staged.manifest.batch_id,
        events=staged.manifest.events,
        tables={"lake/Order__e": staged.manifest.events - missing},
        quarantined=0,
        written_at=datetime.now(UTC).isoformat(),
    )
    (staged.folder.folder / layout.RECEIPT).write_text(receipt.to_json())


def publish(bus: Emulator, first: int, count: int) -> list[str]:
    """Publish orders numbered from `first`; return their replay ids in hex."""
    records = [
        {"Order_Number__c": f"A-{number}", "Amount__c": float(number)}
        for number in range(first, first + count)
    ]
    return [replay_id.hex() for replay_id in bus.publish(TOPIC, records)]


def expire(bus: Emulator, consumer: Consumer) -> str:
    """Commit five events, and let the bus drop them; return the replay id of that position."""
    publish(bus, 1, 5)
    consumer.run_once()
    bus.clock.advance(hours=80)
    return consumer.position.replay_id


def age_records(consumer: Consumer, hours: float) -> None:
    """Make records older by so many hours, because a worker's clock is the machine's."""

    def earlier(text: str) -> str:
        return (datetime.fromisoformat(text) - timedelta(hours=hours)).isoformat() if text else text

    record = json.loads(consumer.positions["orders"])
    times = ("committed_at", "last_event_at", "resume_after_at", "drained_at")
    moved: dict[str, Any] = {name: earlier(record[name]) for name in times}
    at = [one.name for one in fields(Commit)].index("at")
    moved["recent"] = [[*row[:at], earlier(row[at]), *row[at + 1 :]] for row in record["recent"]]
    consumer.positions["orders"] = json.dumps(record | moved)
    keepalive_points = list(consumer.root.rglob(layout.KEEPALIVE_POINT))
    for file in keepalive_points:
        keepalive_point = json.loads(file.read_text())
        file.write_text(
            json.dumps(keepalive_point | {"seen_at": earlier(keepalive_point["seen_at"])})
        )
