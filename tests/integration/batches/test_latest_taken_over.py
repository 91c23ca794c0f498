"""A lease at `latest` is taken over: events that the first holder receives later do not count."""

from __future__ import annotations

import asyncio
from collections import UserDict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import LeaseHeldError, PositionConflictError
from airflow_provider_sfevents.staging import layout, leases
from tests.integration.batches.conftest import TOPIC, publish, staged_ids, until
from tests.unit.batches.building import manifest as made, run
from tests.unit.positions.building import begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from tests.integration.batches.conftest import Consumer, Waiter


@pytest.fixture
def folder(bus: Emulator, consumer: Consumer, waiter: Waiter) -> BatchFolder:
    """Folder of the first batch, which begins at `latest`, without a keepalive."""
    publish(bus, 1, 3)
    consumer.initial_replay = "latest"
    bus.pause_keepalives()
    return waiter.next_batch().folder(waiter.area)


def take_over(folder: BatchFolder) -> None:
    """Take the lease over, as a process on another machine does."""
    number, holder = leases.holder_of(folder.folder) or pytest.fail("no lease")
    path = folder.folder / f"leases/{number + 1:04d}.json"
    path.write_text(replace(holder, host="elsewhere", pid_space="x", token="t").to_json())


async def stage_next(bus: Emulator, consumer: Consumer) -> tuple[list[str], Staged]:
    """Publish an event once a task subscribes to it; return its replay id and the staged batch."""
    fetching = asyncio.create_task(consumer.stage_until(asyncio.Event()))
    await until(lambda: bus.open_streams == 1)
    ids, staged = publish(bus, 4, 1), await fetching
    assert isinstance(staged, Staged)
    staged.release()
    return ids, staged


def test_a_task_stages_nothing_of_a_later_moment(
    bus: Emulator, consumer: Consumer, folder: BatchFolder
) -> None:
    """A task at `latest` whose lease was taken over leaves its first event to the new holder."""

    async def run() -> None:
        fetching = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        take_over(folder)
        publish(bus, 4, 1)
        with pytest.raises(LeaseHeldError, match="taken over"):
            await fetching

    asyncio.run(run())
    assert (folder.parts(), bus.deliveries(TOPIC)) == ([], 1)


def test_the_file_with_the_pinning_event_starts_at_latest(
    bus: Emulator, consumer: Consumer, folder: BatchFolder
) -> None:
    """A file with the pinning event starts at `latest`; a file without it starts after it."""
    ids, staged = asyncio.run(stage_next(bus, consumer))
    assert (staged.manifest.start, staged.manifest.parts[0].start) == (ids[0], "latest")
    assert consumer.position.start.to_text() == ids[0]
    assert [part.start for part in folder.parts()] == ["latest"]


def test_a_pinning_event_that_was_not_staged_is_a_loss_window(
    bus: Emulator, consumer: Consumer, folder: BatchFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that dies between pin and first file leaves a loss window of one event."""
    ids, _ = asyncio.run(stage_next(bus, consumer))
    for file in (folder.folder / part.path for part in folder.parts()):
        file.unlink()
    (folder.folder / layout.MANIFEST).unlink()
    assert consumer.position.pinned_by == "event"
    after = publish(bus, 5, 2)
    rerun = consumer.run_once()
    assert staged_ids(consumer, rerun) == after
    assert isinstance(rerun, Staged)
    (loss,) = rerun.manifest.losses
    assert (rerun.manifest.start, loss.pinned) == (ids[0], ids[0])
    assert f"LOSS WINDOW on {TOPIC}: The task that received event {ids[0]}" in caplog.text
    assert f"position set {consumer.position.consumer} {TOPIC} earliest" in caplog.text


def test_a_wait_stages_nothing_of_a_later_moment(
    bus: Emulator, waiter: Waiter, folder: BatchFolder
) -> None:
    """A wait at `latest` whose lease was taken over reports nothing pending."""

    async def run() -> None:
        poking = asyncio.create_task(waiter.poke_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        take_over(folder)
        publish(bus, 4, 1)
        assert not (await poking).enough

    asyncio.run(run())
    assert (folder.parts(), bus.deliveries(TOPIC)) == ([], 1)


def stage_by_another(folder: BatchFolder) -> None:
    epoch = folder.batch_id.rpartition("-")[0]
    folder.create_manifest(replace(made(1, run(1)), epoch=epoch, batch_id=folder.batch_id))


class TakenOver(UserDict[str, str]):
    """Positions, still none, of a task that loses its lease right after its last read of them."""

    def __init__(self, folder: BatchFolder) -> None:
        self._folder = folder
        super().__init__()

    @override
    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        if leases.holder_of(self._folder.folder) and self._folder.read_manifest() is None:
            take_over(self._folder)
            stage_by_another(self._folder)
        return self.data.get(key, default)


def test_a_task_that_finds_another_ones_batch_gives_way(
    consumer: Consumer, folder: BatchFolder
) -> None:
    """A task whose lease at `latest` has expired names the task that took it over."""
    consumer.positions = TakenOver(folder)  # type: ignore[assignment]
    with pytest.raises(LeaseHeldError, match="taken over"):
        consumer.stage()


class BegunMeanwhile(UserDict[str, str]):
    """Positions of a wait that reads none, before another task begins one and stages a batch."""

    def __init__(self, folder: BatchFolder) -> None:
        self._folder = folder
        self._reads = 0
        super().__init__()

    @override
    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self._reads += 1
        if self._reads == 2:  # the first read looks, the second one is under the lease
            stage_by_another(self._folder)
            return None
        return begun().to_json() if self._reads > 2 else None


def test_a_wait_that_finds_another_ones_batch_waits_on(waiter: Waiter, folder: BatchFolder) -> None:
    """A wait that read no position, and then finds a batch, reads again instead of failing."""
    waiter.consumer.positions = BegunMeanwhile(folder)  # type: ignore[assignment]
    pending = waiter.find()
    assert (pending.next_batch, pending.enough) == (None, False)
    assert "another task has just begun" in pending.why


def test_a_batch_that_contradicts_a_missing_position_is_refused(
    waiter: Waiter, folder: BatchFolder
) -> None:
    """A wait fails if there is a batch, and still no position."""
    stage_by_another(folder)
    with pytest.raises(PositionConflictError):
        waiter.find()
