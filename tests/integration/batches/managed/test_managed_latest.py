"""A managed subscription with defaultReplay LATEST, before its first replay id is committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.extra_deliveries import STAGED_BEFORE
from tests.integration.batches.conftest import publish, staged_ids, until
from tests.integration.batches.killed import kill_at
from tests.integration.batches.managing import (
    ManagedConsumer,
    at_step,
    define,
    managed_bus,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.emulator.state.call_log import RecordedSubscription


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with managed_bus(
        keepalive_seconds=60.0, slot_hold_seconds=0.0
    ) as emulator:  # no keepalive gives a replay id
        define(emulator, default_replay="LATEST")
        yield emulator


def asks(stream: RecordedSubscription) -> bool:
    """True if the stream requests events, and does not only commit."""
    return stream.open and stream.max_outstanding > 0


def while_listening(
    bus: Emulator, work: Callable[[], Awaitable[object]], count: int
) -> tuple[list[str], object]:
    """Publish so many events once the work listens; return their replay ids and the outcome."""

    async def run() -> tuple[list[str], object]:
        working = asyncio.ensure_future(work())
        await until(lambda: working.done() or any(asks(one) for one in bus.subscriptions))
        ids = await asyncio.to_thread(publish, bus, 1, count)
        return ids, await working

    return asyncio.run(run())


def refuse_commit(bus: Emulator) -> None:
    """Refuse the next stream permanently: it would commit what a dead task could not."""
    bus.fail_next(
        "ManagedSubscribe",
        error_code="managed.subscription.fetch.request.invalid",
        status="INVALID_ARGUMENT",
    )


def all_that_is_left(consumer: ManagedConsumer) -> list[str]:
    found: list[str] = []
    while isinstance(staged := consumer.run_once(), Staged):
        found += staged_ids(consumer, staged)
    return found


BEFORE_A_PLACE = {steps.PART_CLOSED, steps.MANAGED_COMMIT_NEXT, steps.MANAGED_COMMITTED}
"""Steps whose first kill leaves no committed replay id: the next try has to commit one first."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("step", "nth"),
    [
        (steps.PART_CLOSED, 1),
        (steps.MANAGED_COMMIT_NEXT, 1),
        (steps.MANAGED_COMMITTED, 1),
        (steps.SCHEMA_KEPT, 1),
        (steps.MANIFEST_NEXT, 1),
        (steps.MANIFEST_WRITTEN, 1),
        (steps.MANAGED_COMMIT_NEXT, 2),
        (steps.MANAGED_COMMITTED, 2),
    ],
)
def test_killed_in_a_first_run(
    bus: Emulator, consumer: ManagedConsumer, step: str, nth: int
) -> None:
    """A kill after a first run's first closed file neither loses nor doubles an event."""
    first, _ = while_listening(
        bus, lambda: asyncio.to_thread(kill_at, consumer, step, nth), count=3
    )
    if nth == 1 and step in BEFORE_A_PLACE:
        refuse_commit(bus)
    between = publish(bus, 4, 2)
    consumer.bounds = Bounds(idle_seconds=0.5, max_seconds=120)
    later, staged = while_listening(bus, lambda: asyncio.to_thread(consumer.run_once), count=2)
    assert isinstance(staged, Staged)
    found = staged_ids(consumer, staged) + all_that_is_left(consumer)
    assert found == first + between + later
    assert consumer.position.events_total == 7


@pytest.mark.full
def test_killed_before_anything_is_kept(bus: Emulator, consumer: ManagedConsumer) -> None:
    """After a kill before the first closed file, the next try's `latest` begins the position."""
    while_listening(bus, lambda: asyncio.to_thread(kill_at, consumer, steps.DELIVERED), count=3)
    ids, staged = while_listening(bus, lambda: consumer.stage_until(asyncio.Event()), count=2)
    assert isinstance(staged, Staged)
    assert staged_ids(consumer, staged) == ids


def test_no_commit_is_taken(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A batch whose commits Salesforce refused is continued by the position, for one delivery."""

    def lose() -> None:
        bus.drop_connections("rst_stream")
        refuse_commit(bus)

    with at_step(steps.MANAGED_COMMIT_NEXT, lose):
        _, staged = while_listening(bus, lambda: asyncio.to_thread(consumer.run_once), count=3)
    assert isinstance(staged, Staged)
    assert consumer.committed == ""
    refuse_commit(bus)
    between = publish(bus, 4, 2)
    consumer.bounds = Bounds(idle_seconds=1.0, max_seconds=120)
    later: list[str] = []

    async def run() -> Staged | Empty:
        working = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: sum(one.open for one in bus.subscriptions) == 2)
        later.extend(await asyncio.to_thread(publish, bus, 6, 2))
        return await working

    rerun = asyncio.run(run())
    assert staged_ids(consumer, rerun) == between + later
    assert consumer.committed == later[0]
    assert bus.deliveries() == 3 + 4 + 1
    assert isinstance(rerun, Staged)
    assert rerun.extra_deliveries() == {STAGED_BEFORE: 1}
    rerun.release()


def test_a_stream_lost_by_its_first_commit_is_not_replaced(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A stream lost by its first commit ends the batch, and the next one follows the position."""
    consumer.bounds = Bounds(idle_seconds=0.5, max_seconds=120)
    between: list[str] = []

    def lose() -> None:
        if not between:
            bus.drop_connections("rst_stream")
            refuse_commit(bus)
            between.extend(publish(bus, 4, 2))

    with at_step(steps.MANAGED_COMMIT_NEXT, lose):
        first, staged = while_listening(bus, lambda: asyncio.to_thread(consumer.run_once), count=3)
    assert isinstance(staged, Staged)
    assert (staged_ids(consumer, staged), staged.manifest.ended_by) == (first, "lost")
    assert all_that_is_left(consumer) == between
