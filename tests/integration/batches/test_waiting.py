"""A triggerer's wait: it stages events until they are enough, and none is delivered twice."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import ReplayIdRefusedError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.waiting import batch_status, listen
from tests.integration.batches.conftest import (
    TOPIC,
    expire,
    publish,
    staged_ids,
    until,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.waiting.wait_result import WaitResult
    from tests.integration.batches.conftest import Consumer, Waiter


def test_a_wait_ends_with_what_woke_it_staged(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A wait costs one stream and no lease before its event, and the task continues after it."""
    next_batch = waiter.next_batch()

    async def run() -> WaitResult:
        listening = asyncio.create_task(waiter.wait(next_batch))
        await until(lambda: bus.open_streams == 1)
        assert leases.holder_of(next_batch.folder(waiter.area).folder) is None
        publish(bus, 1, 1)
        return await listening

    waited = asyncio.run(run())
    assert (waited.batch_id, waited.events, waited.staged) == (next_batch.batch_id, 1, True)
    assert waiter.find(waited).enough
    publish(bus, 2, 4)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC), bus.open_streams) == (5, 5, 0)


def test_a_wait_for_more_lets_the_batch_go_between_two_bursts(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A wait for more events releases the lease between two bursts, and continues after them."""
    waiter.min_events = 5
    next_batch = waiter.next_batch()

    async def run() -> tuple[list[str], WaitResult]:
        async with consumer.client() as client:
            ids = publish(bus, 1, 2)
            plan = batch_status.read_status(next_batch, waiter.area).plan
            burst = await listen.listen(
                next_batch,
                plan,
                client,
                waiter.area,
                Bounds(max_events=5),
                run=waiter.run,
                max_wait=0.2,
            )
        assert (burst.events, burst.ended_by) == (2, "max_wait")
        assert not batch_status.read_status(next_batch, waiter.area).held_by
        ids += publish(bus, 3, 4)
        return ids, await waiter.wait(next_batch)

    ids, waited = asyncio.run(run())
    assert waited.events == 5
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert bus.deliveries(TOPIC) == 6


async def cancelled(waiter: Waiter, next_batch: NextBatch, bus: Emulator, come: int) -> None:
    """Cancel a wait as soon as so many events have left the bus."""
    listening = asyncio.create_task(waiter.wait(next_batch))
    await until(lambda: bus.deliveries(TOPIC) == come)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening


def test_a_wait_that_ends_half_way_keeps_what_came(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A cancelled wait leaves its events staged and the lease released."""
    waiter.min_events = 10
    next_batch = waiter.next_batch()
    publish(bus, 1, 4)
    asyncio.run(cancelled(waiter, next_batch, bus, 4))
    seen = batch_status.read_status(next_batch, waiter.area)
    assert (seen.events, seen.held_by) == (4, "")
    bus.wait_open_streams(0)
    publish(bus, 5, 6)
    waited = asyncio.run(waiter.wait(next_batch))
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (waited.events, staged.manifest.events, bus.deliveries(TOPIC)) == (10, 10, 10)


def test_a_wait_cancelled_twice_holds_nothing(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A wait that is cancelled twice leaves no lease, and each event lands once."""
    waiter.min_events = 10
    next_batch = waiter.next_batch()
    ids = publish(bus, 1, 4)

    async def run() -> None:
        listening = asyncio.create_task(waiter.wait(next_batch))
        await until(lambda: leases.holder_of(next_batch.folder(waiter.area).folder) is not None)
        listening.cancel()
        await asyncio.sleep(0)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening

    asyncio.run(run())
    assert batch_status.read_status(next_batch, waiter.area).held_by == ""
    bus.wait_open_streams(0)
    assert staged_ids(consumer, consumer.run_once()) == ids


def test_two_waits_on_one_batch_double_nothing(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Two triggerers with the same trigger both end, and the batch holds each event once."""
    waiter.min_events = 3
    next_batch = waiter.next_batch()

    async def run() -> list[WaitResult]:
        both = [asyncio.create_task(waiter.wait(next_batch)) for _ in range(2)]
        await until(lambda: bus.open_streams == 2)
        publish(bus, 1, 3)
        return await asyncio.gather(*both)

    waited = asyncio.run(run())
    assert [one.events for one in waited] == [3, 3]
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged.manifest.events == 3


def test_two_waits_in_one_triggerer_share_a_stream(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Two waits in one triggerer share a subscription, and one of them stages the events."""
    waiter.min_events = 3
    next_batch = waiter.next_batch()

    async def run() -> list[WaitResult]:
        async with consumer.client(share_streams=True) as client:
            both = [asyncio.create_task(waiter.wait_with(client, next_batch)) for _ in range(2)]
            await until(lambda: bus.open_streams == 1)
            await asyncio.sleep(0.1)  # the second one joins; if it is late, it finds the files
            publish(bus, 1, 3)
            return await asyncio.gather(*both)

    waited = asyncio.run(run())
    assert [one.events for one in waited] == [3, 3]
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (3, 3)


def test_a_wait_does_not_listen_while_another_task_is_at_work(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A wait does not subscribe while another process holds the lease, and ends at its commit."""
    next_batch = waiter.next_batch()
    publish(bus, 1, 2)
    holding = consumer.stage()
    delivered, streams = bus.deliveries(TOPIC), len(bus.subscriptions)

    async def run() -> WaitResult:
        listening = asyncio.create_task(waiter.wait(next_batch))
        await asyncio.sleep(
            0.3
        )  # some looks; there is no condition to wait for, as nothing may happen
        assert (listening.done(), len(bus.subscriptions)) == (False, streams)
        await asyncio.to_thread(holding.release)
        return await listening

    waited = asyncio.run(run())
    assert (waited.ended_by, waited.events) == ("staged", 2)
    assert (bus.deliveries(TOPIC), len(bus.subscriptions)) == (delivered, streams)


def test_a_batch_committed_meanwhile_is_for_a_worker_to_look_at(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A trigger's result for a batch that was committed meanwhile does not count for the next."""
    next_batch = waiter.next_batch()
    publish(bus, 1, 2)
    consumer.run_once()
    waited = asyncio.run(waiter.wait(next_batch))
    assert (waited.batch_id, waited.ended_by) == (next_batch.batch_id, "staged")
    pending = waiter.find(waited)
    assert pending.next_batch is not None
    assert (pending.enough, pending.next_batch.batch_number) == (False, 2)


def test_a_wait_leaves_a_refused_replay_id_to_a_worker(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A triggerer's wait leaves a refused replay id to a worker, which applies the fallback."""
    expire(bus, consumer)
    with pytest.raises(ReplayIdRefusedError):
        asyncio.run(waiter.wait(waiter.next_batch()))
    consumer.replay_fallback = "earliest"
    publish(bus, 6, 1)
    assert waiter.poke().enough


def test_a_coming_batch_survives_a_triggers_arguments(waiter: Waiter) -> None:
    """A next batch is plain JSON, and is equal after a round trip."""
    next_batch = waiter.next_batch()
    assert type(next_batch).from_dict(next_batch.to_dict()) == next_batch
    assert {type(value) for value in next_batch.to_dict().values()} == {str, int}


class Blocking:
    """File accesses below a folder by the event loop's own thread, from Python's audit events."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._thread: int | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)  # permanent: a hook cannot be removed

    def watch(self) -> None:
        self._thread = threading.get_ident()

    def over(self) -> None:
        self._thread = None

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (
            threading.get_ident() == self._thread
            and event.startswith(("open", "os."))
            and any(self._root in str(one) for one in arguments)
        ):
            self.seen.append(f"{event} {arguments}")


def test_nothing_is_read_or_written_on_the_event_loop(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A wait accesses no file on the event loop's thread, which a thousand waits share."""
    next_batch = waiter.next_batch()
    blocking = Blocking(str(consumer.root))

    async def run() -> WaitResult:
        blocking.watch()
        try:
            listening = asyncio.create_task(waiter.wait(next_batch))
            await until(lambda: bus.open_streams == 1)
            await asyncio.sleep(0.4)  # a keepalive, to be recorded; asserted below
            publish(bus, 1, 1)
            return await listening
        finally:
            blocking.over()

    assert asyncio.run(run()).staged
    assert waiter.area.topic(next_batch.org_id, "orders", TOPIC).read_keepalive_point() is not None
    assert blocking.seen == []
