from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging import layout, leases
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.extra_deliveries import (
    IN_MEMORY,
    OUTSIDE_BATCH,
    STAGED_BEFORE,
    AttemptDeliveries,
    of_attempts,
    sums,
)
from airflow_provider_sfevents.staging.leases import LeaseTiming
from airflow_provider_sfevents.staging.manifest import Manifest
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.building import Delivered, here, manifest, part

if TYPE_CHECKING:
    from upath import UPath

ONE = part("earliest", "0a", 0, 3, "attempts/0001/a")
OTHER = part("earliest", "0a", 0, 3, "attempts/0002/a")


def test_extra_deliveries_of_attempts() -> None:
    """Extra deliveries are events in no closed file, and closed files outside the batch."""
    died = AttemptDeliveries(received=10, closed=(ONE,))
    beaten = AttemptDeliveries(received=3, closed=(OTHER,))
    assert of_attempts([died, beaten], [ONE]) == {IN_MEMORY: 7, OUTSIDE_BATCH: 3}


def test_a_last_sign_of_life_may_be_an_old_one() -> None:
    """Files with more events than the last heartbeat reported give no negative count."""
    assert of_attempts([AttemptDeliveries(received=0, closed=(ONE,))], [ONE]) == {
        IN_MEMORY: 0,
        OUTSIDE_BATCH: 0,
    }


def test_causes_add_up() -> None:
    """Counts are added by cause, and a cause without events is left out."""
    assert sums({"a": 1, "b": 0}, {"a": 2}, {}) == {"a": 3}


def test_a_manifest_keeps_its_extra_deliveries() -> None:
    """A manifest reads back with its extra deliveries."""
    counted = replace(manifest(parts=(ONE,)), extra_deliveries={STAGED_BEFORE: 4})
    assert Manifest.from_json(counted.to_json(), "here") == counted


def test_notes_beside_a_batch_add_up(place: UPath) -> None:
    """Recorded extra deliveries add up; none write no file, and a damaged record is none."""
    batch = BatchFolder(place / "e1" / "0000000001", "e1-1")
    batch.count_extra_deliveries({STAGED_BEFORE: 0})
    assert durable_files.read(batch.folder / layout.EXTRA_DELIVERIES) is None
    batch.count_extra_deliveries({STAGED_BEFORE: 2})
    batch.count_extra_deliveries({STAGED_BEFORE: 3, OUTSIDE_BATCH: 1})
    assert batch.read_extra_deliveries() == {STAGED_BEFORE: 5, OUTSIDE_BATCH: 1}
    durable_files.replace(batch.folder / layout.EXTRA_DELIVERIES, b"[1")
    assert batch.read_extra_deliveries() == {}


def test_a_sign_of_life_tells_what_has_come(place: UPath) -> None:
    """The last heartbeat tells the next holder the number of events that were in memory."""
    batch = BatchFolder(place / "e1" / "0000000001", "e1-1")

    async def receive(lease: leases.Lease) -> None:
        writer = batch.writer(lease, "earliest", 0)  # as of a process that dies: never closed
        await writer.append(Delivered(0, 7))

    with leases.take(batch.folder, here(), LeaseTiming(heartbeat_seconds=0.005)) as first:
        asyncio.run(receive(first))
        until = time.monotonic() + 20
        while leases.received(batch.folder) != {1: 7} and time.monotonic() < until:
            time.sleep(0.005)
    with batch.take_lease(here()) as second:
        durable_files.remove(batch.folder / "leases" / "0001.released")
        assert batch.attempts_before(second) == [AttemptDeliveries(received=7)]
        durable_files.replace(batch.folder / "leases" / "0001.heartbeat", b"\0")
        assert batch.attempts_before(second) == []
