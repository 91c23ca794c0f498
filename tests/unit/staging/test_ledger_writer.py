"""Writing accepted events to the ledger beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging.ledger_writer import LedgerWriter
from airflow_provider_sfevents.staging.publish_ledger import Accepted

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

LONG = 3600.0


def accepted(*numbers: int) -> list[Accepted]:
    return [Accepted(record=number, id=f"e{number}", replay_id="00") for number in numbers]


class Store:
    """Keeps files; waits while its gate is closed, and fails as often as it is set to."""

    def __init__(self) -> None:
        self.files: list[list[int]] = []
        self.begun = threading.Event()
        self.written = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.failures = 0

    def write(self, lines: Sequence[Accepted]) -> None:
        self.begun.set()
        self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise StagingError("the disk is full")
        self.files.append([one.record for one in lines])
        self.written.release()


@pytest.fixture
def store() -> Store:
    return Store()


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(story)


def test_publishing_goes_on_while_a_file_is_written(store: Store) -> None:
    """`note` waits for a slow store only when the next file is full, too."""

    async def story() -> None:
        async with LedgerWriter(store.write, lines=3, seconds=LONG) as writer:
            store.gate.clear()
            await writer.note(accepted(1, 2, 3))
            await asyncio.to_thread(store.begun.wait)
            await writer.note(accepted(4, 5))
            held = asyncio.create_task(writer.note(accepted(6)))
            await asyncio.sleep(0.01)
            assert not held.done()
            assert store.files == []
            store.gate.set()
            await held
            await writer.note(accepted(7))

    run(story())
    assert store.files == [[1, 2, 3], [4, 5, 6], [7]]


def test_what_is_noted_is_written_before_long(store: Store) -> None:
    """A noted event is written after `seconds`, even if no other event follows."""

    async def story() -> None:
        async with LedgerWriter(store.write, seconds=0.01) as writer:
            await writer.note(accepted(1))
            await writer.note([])
            await asyncio.to_thread(store.begun.wait)
            await writer.note(accepted(2))

    run(story())
    assert store.files == [[1], [2]]


def test_what_is_noted_meanwhile_is_written_before_long_too(store: Store) -> None:
    """An event that is noted during a write is written after `seconds`, too."""

    async def story() -> None:
        async with LedgerWriter(store.write, lines=2, seconds=0.01) as writer:
            store.gate.clear()
            await writer.note(accepted(1, 2))
            await asyncio.to_thread(store.begun.wait)
            await writer.note(accepted(3))
            store.gate.set()
            for _ in range(2):
                await asyncio.to_thread(store.written.acquire)

    run(story())
    assert store.files == [[1, 2], [3]]


def test_nothing_noted_writes_nothing(store: Store) -> None:
    """Without noted events no file is written."""

    async def story() -> None:
        async with LedgerWriter(store.write) as writer:
            await writer.note([])

    run(story())
    assert store.files == []


def test_a_store_that_fails_is_told_and_tried_again(store: Store) -> None:
    """After a failed write the next `note` raises, and leaving the context writes the events."""
    store.failures = 1

    async def story() -> None:
        async with LedgerWriter(store.write, lines=2, seconds=LONG) as writer:
            await writer.note(accepted(1, 2))
            await asyncio.to_thread(store.begun.wait)
            with pytest.raises(StagingError, match="disk is full"):
                await writer.note(accepted(3, 4))
            await writer.note(accepted(5))

    run(story())
    assert store.files == [[1, 2, 3, 4, 5]]


def test_a_store_that_fails_to_the_end_fails_the_task(store: Store) -> None:
    """A store that never recovers fails the task, because its result names the ledger."""
    store.failures = 2

    async def story() -> None:
        async with LedgerWriter(store.write, seconds=LONG) as writer:
            await writer.note(accepted(1))

    with pytest.raises(StagingError, match="disk is full"):
        run(story())
    assert store.files == []


def test_an_event_loop_that_is_torn_down_leaves_its_ledger_whole(store: Store) -> None:
    """If the event loop cancels its tasks before the first write, all events are written."""

    async def story() -> None:
        async with LedgerWriter(store.write, lines=2, seconds=LONG) as writer:
            await writer.note(accepted(1, 2))
            await writer.note(accepted(3))
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    run(story())
    assert store.files == [[1, 2, 3]]


def test_a_cancelled_task_leaves_its_ledger_whole(store: Store) -> None:
    """If a task is cancelled during a write, every event is in some file."""

    async def story() -> None:
        async with LedgerWriter(store.write, lines=2, seconds=LONG) as writer:
            store.gate.clear()
            await writer.note(accepted(1, 2))
            await asyncio.to_thread(store.begun.wait)
            await writer.note(accepted(3))
            await asyncio.Event().wait()

    async def cancelled() -> None:
        task = asyncio.create_task(story())
        await asyncio.to_thread(store.begun.wait)
        await asyncio.sleep(0.01)
        task.cancel()
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert {number for file in store.files for number in file} == {1, 2, 3}
