"""Somebody at `latest` is thought dead, and another asks there anew, later: what the first one then hears must not count before that."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import BatchClaimed
from airflow_provider_sfevents.staging import claims
from tests.integration.batches.conftest import TOPIC, publish, until

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from tests.integration.batches.conftest import Consumer, Waiter


@pytest.fixture
def folder(bus: Emulator, consumer: Consumer, waiter: Waiter) -> BatchFolder:
    """Of the first batch, which begins at `latest`; no keepalive tells where that is."""
    publish(bus, 1, 3)
    consumer.initial_replay = "latest"
    bus.pause_keepalives()
    return waiter.coming().folder(waiter.area)


def take_over(folder: BatchFolder) -> None:
    """As somebody on another machine does."""
    number, holder = claims.holder_of(folder.folder) or pytest.fail("not claimed")
    path = folder.folder / f"claims/{number + 1:04d}.json"
    path.write_text(replace(holder, host="elsewhere", pid_space="x", token="t").to_json())


def test_a_task_stages_nothing_of_a_later_moment(
    bus: Emulator, consumer: Consumer, folder: BatchFolder
) -> None:
    """It finds the other's claim with its first event, and leaves the event to him."""

    async def run() -> None:
        fetching = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        take_over(folder)
        publish(bus, 4, 1)
        with pytest.raises(BatchClaimed, match="taken over"):
            await fetching

    asyncio.run(run())
    assert (folder.parts(), bus.deliveries(TOPIC)) == ([], 1)


def test_a_wait_stages_nothing_of_a_later_moment(
    bus: Emulator, waiter: Waiter, folder: BatchFolder
) -> None:
    """A wait leaves the event to the other holder as well, and reports nothing pending."""

    async def run() -> None:
        poking = asyncio.create_task(waiter.poke_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        take_over(folder)
        publish(bus, 4, 1)
        assert not (await poking).enough

    asyncio.run(run())
    assert (folder.parts(), bus.deliveries(TOPIC)) == ([], 1)
