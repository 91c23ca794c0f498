"""A watcher on a managed subscription, whose one slot it shares with the runs that it starts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from tests.integration.batches.conftest import publish
from tests.integration.batches.managing import ManagedConsumer, define, managed_bus
from tests.integration.triggers.conftest import Watch, listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

MANAGED = {"managed": "Orders"}


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with managed_bus() as emulator:
        yield emulator


@pytest.fixture
def consumer(bus: Emulator, tmp_path: Path) -> ManagedConsumer:
    return ManagedConsumer(bus=bus, root=tmp_path / "staging")


@pytest.mark.full
def test_a_watcher_gives_the_slot_to_the_run(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A watcher stages, yields the slot, announces, and subscribes again after the commit."""
    define(bus)

    async def scenario() -> None:
        async with Watch(consumer, request=MANAGED).running() as watch:
            await listening(bus)
            publish(bus, 1, 3)
            said = await watch.announced()
            assert (said["events"], said["staged"]) == (3, True)
            staged = await asyncio.to_thread(consumer.run_once)
            assert isinstance(staged, Staged)
            assert staged.manifest.events == 3
            await listening(bus)
            publish(bus, 4, 1)
            assert (await watch.announced(2))["batch_number"] == 2
        assert consumer.committed == consumer.position.replay_id

    asyncio.run(scenario())


def test_what_is_wrong_with_the_subscription_is_told(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """An error of the subscription fails a run with the message; it begins no position."""
    define(bus, error_recovery_replay="LATEST")

    async def scenario() -> None:
        async with Watch(consumer, request=MANAGED).running() as watch:
            said = await watch.announced()
            assert "errorRecoveryReplay LATEST" in said["trouble"]
            await watch.stays_silent(350)

    asyncio.run(scenario())
    assert consumer.positions == {}
