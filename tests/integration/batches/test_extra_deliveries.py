"""Extra deliveries are counted by cause, in the manifest and in a task's result."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.extra_deliveries import AFTER_END, IN_MEMORY, STAGED_BEFORE
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.leases import LeaseTiming
from tests.integration.batches.conftest import publish, staged_ids, until
from tests.integration.batches.killed import kill_at
from tests.integration.batches.managing import (
    ManagedConsumer,
    ManagedWaiter,
    at_step,
    commits_lost,
    define,
    managed_bus,
)

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.batches.conftest import Consumer


def staged(consumer: Consumer) -> Staged:
    """Run a whole task that stages a batch."""
    came = consumer.run_once()
    assert isinstance(came, Staged)
    return came


def test_what_a_dead_task_had_in_memory(bus: Emulator, consumer: Consumer) -> None:
    """Extra deliveries after a death count up to its last lease heartbeat; otherwise none."""
    publish(bus, 1, 5)
    one = staged(consumer)
    assert one.extra_deliveries() == {}
    folder = one.topic_folder.batch(consumer.position.epoch, 2).folder
    holder = LeaseHolder.here(consumer.run, datetime.now(UTC).isoformat())
    with leases.take(folder, holder, LeaseTiming(heartbeat_seconds=0.005)) as lease:
        lease.note_received(7)
        until = time.monotonic() + 20
        while leases.received(folder) != {1: 7} and time.monotonic() < until:
            time.sleep(0.005)
    publish(bus, 6, 7)
    two = staged(consumer)
    assert two.manifest.extra_deliveries == two.extra_deliveries() == {IN_MEMORY: 7}


def test_what_salesforce_delivers_again(tmp_path: Path) -> None:
    """The counted extra deliveries of all causes add up to the deliveries of Salesforce."""
    with managed_bus() as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        define(bus)
        publish(bus, 1, 5)
        with commits_lost(bus):
            batches = [staged(consumer)]
        second = publish(bus, 6, 4)
        ManagedWaiter(consumer=consumer).poke()
        batches.append(staged(consumer))
        assert staged_ids(consumer, batches[1]) == second
        assert batches[1].manifest.extra_deliveries == {STAGED_BEFORE: 5 + 5 + 1}
        publish(bus, 10, 3)
        batches.append(staged(consumer))
        assert [one.extra_deliveries() for one in batches] == [{}, {STAGED_BEFORE: 11}, {}]
        events = sum(one.manifest.events + sum(one.extra_deliveries().values()) for one in batches)
        assert events == bus.deliveries()


@pytest.mark.full
def test_what_a_dead_tasks_files_cost(tmp_path: Path) -> None:
    """Closed files without a manifest come again from a managed subscription, and are counted."""
    with managed_bus() as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        define(bus)
        publish(bus, 1, 3)
        consumer.run_once()
        publish(bus, 4, 6)
        kill_at(consumer, steps.MANIFEST_NEXT)
        asyncio.run(until(lambda: not any(one.open for one in bus.subscriptions)))
        publish(bus, 10, 2)
        assert staged(consumer).extra_deliveries() == {STAGED_BEFORE: 6}
        assert bus.deliveries() == 3 + 6 + 8


def test_what_comes_after_the_end(tmp_path: Path) -> None:
    """Events delivered between a batch's end and the stream's end are counted as extra."""
    with managed_bus() as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        consumer.bounds = Bounds(idle_seconds=0.5)
        define(bus)
        first, late = publish(bus, 1, 4), []

        def more() -> None:
            late.extend(publish(bus, 5, 2))
            until = time.monotonic() + 20
            while bus.deliveries() < 6 and time.monotonic() < until:
                time.sleep(0.005)

        with at_step(steps.MANAGED_COMMIT_NEXT, more):
            one = staged(consumer)
        assert staged_ids(consumer, one) == first
        assert (one.manifest.extra_deliveries, one.extra_deliveries()) == ({}, {AFTER_END: 2})
        assert staged_ids(consumer, staged(consumer)) == late
        assert bus.deliveries() == 4 + 2 + 2
