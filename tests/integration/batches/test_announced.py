"""An announced batch: it takes what is staged and pending, and waits for nothing more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.pubsub.bounds import Bounds
from tests.integration.batches.conftest import Consumer, publish, staged_ids, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.batches.conftest import Waiter

HOUR = 3600.0
PATIENT = Bounds(idle_seconds=HOUR, max_seconds=2 * HOUR)
"""With these bounds a fetch that is not told of an announcement outlasts every test."""
CHANGES = "/data/AccountChangeEvent"

pytestmark = pytest.mark.timeout(240)


def test_an_announced_batch_takes_what_is_staged_and_pending(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Staged and pending events are one batch, which ends although `idle_seconds` is an hour."""
    ids = publish(bus, 1, 2)
    assert waiter.poke().enough
    ids += publish(bus, 3, 200)
    consumer.bounds = PATIENT.of_announced(1.0, follows_transactions=False)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged_ids(consumer, staged) == ids
    assert (staged.manifest.ended_by, bus.deliveries()) == ("idle_seconds", len(ids))


def test_a_keepalive_ends_an_announced_batch(bus: Emulator, consumer: Consumer) -> None:
    """A keepalive ends an announced batch whose events another task has taken."""
    publish(bus, 1, 2)
    consumer.run_once()
    consumer.bounds = replace(PATIENT, keepalive_ends=True)
    empty = consumer.run_once()
    assert isinstance(empty, Empty)
    assert empty.ended_by == "idle_seconds"


def test_a_short_silence_ends_an_announced_batch(bus: Emulator, consumer: Consumer) -> None:
    """Salesforce answers an empty request after up to 270 s, so a short silence is enough."""
    bus.pause_keepalives()
    consumer.bounds = PATIENT.of_announced(1.0, follows_transactions=False)
    empty = consumer.run_once()
    assert isinstance(empty, Empty)
    assert empty.ended_by == "idle_seconds"


def test_announced_events_that_come_late_belong_to_their_batch(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Until the announced events are there, no short silence ends their batch."""
    consumer.announced_batch = waiter.next_batch().batch_id
    announced = PATIENT.of_announced(1.0, expected=2, follows_transactions=False)
    consumer.bounds = replace(announced, keepalive_ends=False)

    async def run() -> Staged | Empty:
        staging = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        await asyncio.sleep(2.0)  # the silence is the case that is tested
        assert not staging.done()
        publish(bus, 1, 2)
        return await staging

    staged = asyncio.run(run())
    assert isinstance(staged, Staged)
    assert staged.manifest.events == 2


def test_the_announced_events_of_another_batch_are_not_waited_for(
    bus: Emulator, consumer: Consumer
) -> None:
    """A task that was told of a batch that has landed does not wait for its events."""
    bus.pause_keepalives()
    publish(bus, 1, 2)
    consumer.run_once()
    consumer.announced_batch = consumer.position.batch_id
    consumer.bounds = PATIENT.of_announced(1.0, expected=2, follows_transactions=False)
    assert isinstance(consumer.run_once(), Empty)


def test_a_short_silence_is_not_recorded(tmp_path: Path) -> None:
    """An announced batch ends so soon that it does not show that no event was pending.

    So neither its time nor that of an announced run without events counts as silence.
    """
    with Emulator() as bus:  # it holds a poll for 110 s
        bus.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        consumer = Consumer(bus=bus, root=tmp_path / "staging", transport="streaming")
        consumer.bounds = PATIENT.of_announced(1.0, follows_transactions=False)
        publish(bus, 1, 2)
        assert len(staged_ids(consumer, consumer.run_once())) == 2
        assert consumer.position.drained_at == ""
        assert isinstance(consumer.run_once(), Empty)
        assert consumer.position.resume_after_at == ""
        consumer.bounds = Bounds(idle_seconds=1.5)
        publish(bus, 3, 1)
        consumer.run_once()
        assert consumer.position.drained_at != ""


@dataclass
class Account:
    """A record whose changes are published as parts of one transaction."""

    bus: Emulator
    record: str

    def change(self, name: str) -> None:
        with self.bus.transaction(key="t-1") as changes:
            changes.update(self.record, {"Name": name})


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    knobs = Knobs(half_close_seconds=0.01, keepalive_seconds=0.05)
    with Emulator(knobs=knobs) as bus:
        bus.define_entity("Account", {"Name": "Text"})
        yield Account(bus=bus, record=bus.create("Account", {"Name": "Acme"}))


def test_the_rest_of_a_transaction_belongs_to_an_announced_batch(
    account: Account, tmp_path: Path
) -> None:
    """A transaction in two responses, 300 ms and some keepalives apart, is one batch."""
    bus = account.bus
    consumer = Consumer(bus=bus, root=tmp_path / "staging", topic=CHANGES)
    consumer.bounds = Bounds(max_events=1)
    assert isinstance(consumer.run_once(), Staged)
    consumer.bounds = PATIENT.of_announced(2.0, follows_transactions=True)

    async def run() -> Staged | Empty:
        account.change("Acme 1")
        staging = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: bus.deliveries(CHANGES) == 2)
        await asyncio.sleep(0.3)  # the gap is the case that is tested
        account.change("Acme 2")
        return await staging

    staged = asyncio.run(run())
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, staged.manifest.ended_by) == (2, "idle_seconds")
