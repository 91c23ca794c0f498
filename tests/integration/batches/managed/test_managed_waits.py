from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from tests.integration.batches.conftest import TOPIC, publish, staged_ids, until
from tests.integration.batches.managing import (
    NAME,
    ManagedConsumer,
    ManagedWaiter,
    define,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


def test_a_sensor_hands_over(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A sensor's events are the batch's first file, and are left out when they come again."""
    define(bus)
    assert not waiter.poke().enough
    ids = publish(bus, 1, 4)
    pending = waiter.poke()
    assert (pending.enough, pending.events) == (True, 1)
    staged = consumer.run_once()
    assert staged_ids(consumer, staged) == ids
    assert isinstance(staged, Staged)
    assert len(staged.manifest.parts) == 2
    assert bus.deliveries() == 1 + 4
    assert consumer.committed == ids[-1]


def test_a_sensor_at_latest_commits_what_it_heard(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A sensor at `latest` commits its first event to Salesforce, so that none is missed."""
    define(bus, default_replay="LATEST")

    async def run() -> list[str]:
        poking = asyncio.create_task(waiter.poke_until(asyncio.Event()))
        await until(lambda: any(one.open for one in bus.subscriptions))
        await asyncio.sleep(0.05)
        first = await asyncio.to_thread(publish, bus, 1, 1)
        assert (await poking).enough
        return first

    first = asyncio.run(run())
    between = publish(bus, 2, 2)
    assert staged_ids(consumer, consumer.run_once()) == first + between


def test_a_sensor_finds_the_slot_taken(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A sensor whose subscription another client uses reports "not yet", and no failure."""
    define(bus)

    async def run() -> str:
        async with consumer.client() as other, other.managed(NAME, TOPIC) as holding:
            listening = holding.deliveries(1)
            await anext(listening)  # a keepalive
            pending = await waiter.poke_until(asyncio.Event())
            await listening.aclose()
        assert not pending.enough
        return pending.why

    consumer.timeouts = consumer.timeouts.__class__(slot_seconds=0.2)
    assert "has another client" in asyncio.run(run())


@pytest.mark.full
def test_a_wait_makes_way_for_a_task(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A triggerer's wait leaves the managed subscription to a task that holds the lease."""
    define(bus)
    next_batch = waiter.next_batch()
    assert next_batch.managed == NAME
    waiter.min_events = 2
    consumer.timeouts = consumer.timeouts.__class__(slot_seconds=15.0)

    async def run() -> tuple[Staged, list[str]]:
        waiting = asyncio.create_task(waiter.wait(next_batch))
        await until(lambda: any(one.open for one in bus.subscriptions))
        fetching = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: not any(one.open for one in bus.subscriptions))
        ids = await asyncio.to_thread(publish, bus, 1, 1)
        staged = await fetching
        assert isinstance(staged, Staged)
        staged.release()
        waited = await waiting
        assert waited.ended_by == "staged"
        return staged, ids

    staged, ids = asyncio.run(run())
    assert staged_ids(consumer, staged) == ids
