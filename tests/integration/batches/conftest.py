"""A consumer of an emulated topic without Airflow: stage, land by hand, commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import BatchRequest, Empty, Staged
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.settings import ClientCredentials, Settings
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Receipt, Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "/event/Order__e"


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.3)) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator


@dataclass
class Consumer:
    """One task of one DAG, run by run."""

    bus: Emulator
    root: Path
    positions: dict[str, str] = field(default_factory=dict)
    run: Run = field(default_factory=lambda: Run(dag="orders", run="r1", task="land"))
    topic: str = TOPIC
    initial_replay: str = "earliest"
    bounds: Bounds = field(default_factory=lambda: Bounds(idle_seconds=0.3))

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
                login_url=org["host"], client_id=org["login"], client_secret=org["password"]
            ),
            endpoint=self.bus.endpoint,
            plaintext=True,
        )

    def stage(self) -> Staged | Empty:
        return asyncio.run(self.stage_until(asyncio.Event()))

    async def stage_until(self, stopping: asyncio.Event) -> Staged | Empty:
        request = BatchRequest(
            topic=self.topic,
            consumer="orders",
            bounds=self.bounds,
            run=self.run,
            initial_replay=self.initial_replay,
            learn_seconds=5,
        )
        async with PubSubClient(self.settings) as client:
            area = StagingArea(UPath(self.root))
            return await stage_batch(request, client, area, lambda _: self.store, stopping)

    def run_once(self) -> Staged | Empty:
        """A whole task: stage, land, commit."""
        staged = self.stage()
        if isinstance(staged, Staged):
            write_receipt(staged)
            commit_batch(staged, self.run, keep_batches=10)
            staged.release()
        return staged


@pytest.fixture
def consumer(bus: Emulator, tmp_path: Path) -> Consumer:
    return Consumer(bus=bus, root=tmp_path / "staging")


def write_receipt(staged: Staged, *, missing: int = 0) -> None:
    """What the Spark job leaves when it has landed the batch, less so many rows."""
    receipt = Receipt(
        batch_id=staged.manifest.batch_id,
        events=staged.manifest.events,
        tables={"lake/Order__e": staged.manifest.events - missing},
        quarantined=0,
        written_at=datetime.now(UTC).isoformat(),
    )
    (staged.folder.folder / layout.RECEIPT).write_text(receipt.to_json())


def publish(bus: Emulator, first: int, count: int) -> list[str]:
    """Orders numbered from `first`; their replay ids in hex."""
    records = [
        {"Order_Number__c": f"A-{number}", "Amount__c": float(number)}
        for number in range(first, first + count)
    ]
    return [replay_id.hex() for replay_id in bus.publish(TOPIC, records)]
