from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import StoppedError
from tests.integration.batches.conftest import TOPIC, publish, staged_ids, until
from tests.integration.batches.managing import (
    NAME,
    PATIENT,
    ManagedConsumer,
    ManagedWaiter,
    at_step,
    commits_lost,
    define,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from airflow_provider_sfevents.emulator import Emulator

ENDLESS = replace(PATIENT, slot_seconds=36_000.0)  # a test that waits for all of it never ends


@asynccontextmanager
async def occupied(consumer: ManagedConsumer) -> AsyncIterator[None]:
    """Let another client occupy the managed subscription."""
    async with consumer.client() as other, other.managed(NAME, TOPIC) as holding:
        listening = holding.deliveries(1)
        await anext(listening)
        yield
        await listening.aclose()


def tries(consumer: ManagedConsumer) -> int:
    """Return the number of streams that were requested."""
    return sum(call.rpc == "ManagedSubscribe" for call in consumer.bus.requests)


async def ended(
    consumer: ManagedConsumer, work: Callable[[asyncio.Event], Awaitable[object]]
) -> str:
    """Run work that is stopped while it waits for the other client; return its error."""
    async with occupied(consumer):
        consumer.timeouts = ENDLESS
        stopping = asyncio.Event()
        before = tries(consumer)
        working = asyncio.ensure_future(work(stopping))
        await until(lambda: tries(consumer) > before)
        await asyncio.sleep(0.1)  # usually enough for the refusal to arrive
        stopping.set()
        with pytest.raises(StoppedError) as caught:
            await working
    consumer.timeouts = PATIENT
    return str(caught.value)


def test_a_fetch_is_ended(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A fetch that waits for another client of the subscription can be stopped."""
    define(bus)
    assert "ended while it fetched" in asyncio.run(ended(consumer, consumer.stage_until))


@pytest.mark.full
def test_a_poke_is_ended(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A sensor that waits for another client of the subscription can be stopped."""
    define(bus)
    waiter = ManagedWaiter(consumer=consumer)
    assert "ended while it waited" in asyncio.run(ended(consumer, waiter.poke_until))


def test_the_commit_of_a_batch_that_is_staged_is_given_up(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A reused batch stays staged, without Spark, if the wait for its commit is stopped."""
    define(bus)
    ids = publish(bus, 1, 4)
    with commits_lost(bus):
        consumer.stage().release()
    told = asyncio.run(ended(consumer, consumer.stage_until))
    assert "stays staged for the next try" in told
    assert staged_ids(consumer, consumer.run_once()) == ids


@pytest.mark.full
def test_a_commit_that_is_made_up_for_is_given_up(bus: Emulator, consumer: ManagedConsumer) -> None:
    """The wait to commit the last batch's end, before a fetch, can be stopped."""
    define(bus)
    ids = publish(bus, 1, 4)
    with commits_lost(bus):
        consumer.run_once()
    assert "ended while it fetched" in asyncio.run(ended(consumer, consumer.stage_until))
    later = publish(bus, 5, 2)
    assert staged_ids(consumer, consumer.run_once()) == later
    assert ids[-1] < consumer.committed == later[-1]


def test_ended_after_the_last_event(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A task that is stopped after its manifest starts no Spark; the next try reuses the batch."""
    define(bus)
    ids = publish(bus, 1, 4)

    async def run() -> None:
        stopping = asyncio.Event()
        with at_step(steps.MANAGED_COMMIT_NEXT, stopping.set), pytest.raises(StoppedError):
            await consumer.stage_until(stopping)

    asyncio.run(run())
    assert consumer.committed == ids[-1]
    rerun = consumer.run_once()
    assert isinstance(rerun, Staged)
    assert rerun.reused
    assert staged_ids(consumer, rerun) == ids
    assert bus.deliveries() == 4
