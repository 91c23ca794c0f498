"""A consumer whose staging area breaks, run after run, and the rules that must hold after it.

A run stages, lands by hand and commits.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import NotLandedError, SfEventsError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Receipt
from airflow_provider_sfevents.staging.storage import durable_files
from airflow_provider_sfevents.staging.storage.staging_location import usable
from tests.integration.batches.conftest import TOPIC, Consumer

if TYPE_CHECKING:
    from upath import UPath

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder


@dataclass
class World:
    """One topic of which all is published already, one staging area, one table.

    :ivar table: replay ids by batch, in hex: landing replaces a batch's rows.
    """

    bus: Emulator
    root: UPath
    published: list[str]
    table: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # All in one batch, which ends as soon as it is full: no waiting for silence.
        bounds = Bounds(max_events=len(self.published), idle_seconds=120)
        self.consumer = Consumer(bus=self.bus, root=self.root, bounds=bounds)
        self._before = self.bus.deliveries(TOPIC)

    @property
    def delivered(self) -> int:
        """Deliveries to this consumer."""
        return self.bus.deliveries(TOPIC) - self._before

    @property
    def folder(self) -> BatchFolder:
        """The first batch; before the first run has begun, a folder of nothing."""
        orgs = [name for name in durable_files.names(self.root) if not name.startswith(".")]
        topic = StagingArea(self.root).topic(next(iter(orgs), "none"), "orders", TOPIC)
        return topic.batch(next(iter(topic.epochs()), "none"), 1)

    def closed(self) -> int:
        """Events that are paid for and kept."""
        return sum(part.events for part in self.folder.sound_parts())

    def run_once(self) -> Staged:
        """A whole task, as the operator runs it; landing is the Spark job's, by hand."""
        usable(self.root)
        staged = self.consumer.stage()
        assert isinstance(staged, Staged)
        try:
            self._land(staged)
            commit_batch(staged, self.consumer.run, keep_batches=10)
        finally:
            staged.release()
        return staged

    def trouble(self) -> str:
        """A whole task, and what it failed with."""
        try:
            self.run_once()
        except SfEventsError as error:
            return str(error)
        return ""

    def _land(self, staged: Staged) -> None:
        batch, manifest = staged.folder, staged.manifest
        files = [durable_files.read(batch.folder / part.path) for part in manifest.parts]
        schemas = [
            durable_files.read(batch.folder / layout.schema_name(one)) for one in manifest.schemas
        ]
        if None in files or None in schemas:
            raise NotLandedError("Spark found files missing")
        for schema in schemas:
            json.loads(schema or b"")
        tables = [pq.read_table(pa.BufferReader(file)) for file in files]
        self.table[manifest.batch_id] = [
            one.hex() for table in tables for one in table[layout.REPLAY_ID].to_pylist()
        ]
        receipt = Receipt(
            batch_id=manifest.batch_id,
            events=manifest.events,
            tables={"orders": len(self.table[manifest.batch_id])},
            quarantined=0,
            written_at=datetime.now(UTC).isoformat(),
        )
        durable_files.replace(batch.folder / layout.RECEIPT, receipt.to_json().encode())

    def follow(self, message: str) -> None:
        """Do by hand what the message says."""
        advised = re.search(r"[Rr]emove (\S+?)[:.,]? ", f"{message} ")
        assert advised is not None, message
        durable_files.remove(self.root / advised[1].removeprefix(f"{self.root}/"))

    def check(self, delivered: int) -> None:
        """Check that each event landed once and that no kept event was delivered twice.

        The position is at the last event.
        """
        assert sorted(one for rows in self.table.values() for one in rows) == sorted(self.published)
        assert self.consumer.position.replay_id == self.published[-1]
        assert self.delivered == delivered
