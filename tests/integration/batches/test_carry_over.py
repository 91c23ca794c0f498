"""Events that are delivered beyond a batch: kept for the next batch, or dropped and counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.carry_over import carry_over
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
from airflow_provider_sfevents.staging.extra_deliveries import BEYOND_BOUND
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from tests.integration.batches.conftest import TOPIC, publish, staged_ids
from tests.integration.batches.killed import kill_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from tests.integration.batches.conftest import Consumer

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ONE_EVENT = Bounds(idle_seconds=0.3, until=LONG_AGO)
"""Ends the batch with the first event that is delivered."""


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """A bus that delivers four events at a time, so that three come beyond a batch of one."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01, response_events=4)) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator


def stage(consumer: Consumer) -> Staged:
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    staged.release()
    return staged


def run(consumer: Consumer) -> Staged:
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    return staged


def next_folder(staged: Staged) -> BatchFolder:
    manifest = staged.manifest
    return staged.topic_folder.batch(manifest.epoch, manifest.batch_number + 1)


def test_events_after_until_begin_the_next_batch(bus: Emulator, consumer: Consumer) -> None:
    """Events beyond `until` are the next batch's first part, and are delivered once."""
    ids = publish(bus, 1, 4)
    first = run(replace(consumer, bounds=ONE_EVENT))
    second = run(consumer)
    assert (staged_ids(consumer, first), staged_ids(consumer, second)) == (ids[:1], ids[1:])
    assert (first.extra_deliveries(), second.extra_deliveries(), bus.deliveries(TOPIC)) == (
        {},
        {},
        4,
    )


def test_events_after_max_bytes_begin_the_next_batch(bus: Emulator, consumer: Consumer) -> None:
    """Events beyond `max_bytes` are the next batch's first part, and are delivered once."""
    orders = [{"Order_Number__c": "A" * 5_000, "Amount__c": 1.0}] * 4
    ids = [one.hex() for one in bus.publish(TOPIC, orders)]
    first = run(replace(consumer, bounds=Bounds(idle_seconds=0.3, max_bytes=4_000)))
    second = run(consumer)
    assert (staged_ids(consumer, first), staged_ids(consumer, second)) == (ids[:1], ids[1:])
    assert (first.extra_deliveries(), second.extra_deliveries(), bus.deliveries(TOPIC)) == (
        {},
        {},
        4,
    )


def test_carried_events_fill_the_next_batch_first(bus: Emulator, consumer: Consumer) -> None:
    """A batch that begins with carried events counts them towards its own bounds."""
    ids = publish(bus, 1, 4)
    run(replace(consumer, bounds=ONE_EVENT))
    ids += publish(bus, 5, 4)
    second = run(replace(consumer, bounds=Bounds(idle_seconds=0.3, max_events=5)))
    assert (staged_ids(consumer, second), bus.deliveries(TOPIC)) == (ids[1:6], 6)


def test_carried_events_may_reach_until(bus: Emulator, consumer: Consumer) -> None:
    """A batch whose carried events reach `until` ends with them, and requests no more."""
    ids = publish(bus, 1, 4)
    run(replace(consumer, bounds=ONE_EVENT))
    publish(bus, 5, 4)
    second = run(replace(consumer, bounds=replace(ONE_EVENT, idle_seconds=600.0)))
    assert second.manifest.ended_by == "until"
    assert (staged_ids(consumer, second), bus.deliveries(TOPIC)) == (ids[1:], 4)


@pytest.mark.parametrize(
    ("step", "nth", "then", "more"),
    [
        (steps.MANIFEST_NEXT, 1, "", 3),
        (steps.MANIFEST_WRITTEN, 1, "", 3),
        (steps.CARRY_OVER_NEXT, 1, "", 3),
        (steps.CARRY_OVER_LEASED, 1, "", 3),
        (steps.CARRY_OVER_LEASED, 1, "os.rename", 3),
        (steps.PART_CLOSED, 2, "", 0),
    ],
    ids=["before-manifest", "after-manifest", "before-lease", "leased", "in-part", "after-part"],
)
def test_a_death_costs_what_was_in_memory(
    bus: Emulator, consumer: Consumer, step: str, nth: int, then: str, more: int
) -> None:
    """A task that dies with events beyond its batch loses none, and each is landed once."""
    ids = publish(bus, 1, 4)
    kill_at(consumer, step, nth, then=then, until=LONG_AGO.isoformat())
    batches = [run(consumer)]
    if len(staged_ids(consumer, batches[0])) < len(ids):
        batches.append(run(consumer))
    assert [one for batch in batches for one in staged_ids(consumer, batch)] == ids
    assert bus.deliveries(TOPIC) == 4 + more
    assert list(consumer.root.rglob(".part*")) == []


def test_a_held_next_batch_drops_them(bus: Emulator, consumer: Consumer) -> None:
    """Events beyond a batch are dropped and counted if another process holds the next one."""
    publish(bus, 1, 1)
    first = run(consumer)
    ids = publish(bus, 2, 4)
    held = first.topic_folder.batch(first.manifest.epoch, 3)
    with held.take_lease(LeaseHolder.here(consumer.run, "now")):
        second = run(replace(consumer, bounds=ONE_EVENT))
        assert held.parts() == []
    assert second.extra_deliveries() == {BEYOND_BOUND: 3}
    assert staged_ids(consumer, run(consumer)) == ids[1:]
    assert bus.deliveries(TOPIC) == 1 + 4 + 3


def test_what_cannot_be_written_is_counted_once(bus: Emulator, consumer: Consumer) -> None:
    """Events beyond a batch that cannot be staged are counted with that batch alone."""
    publish(bus, 1, 1)
    first = run(consumer)
    ids = publish(bus, 2, 4)
    in_the_way = first.topic_folder.batch(first.manifest.epoch, 3).folder / "attempts"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("no folder")
    second = run(replace(consumer, bounds=ONE_EVENT))
    in_the_way.unlink()
    third = run(consumer)
    assert (second.extra_deliveries(), third.extra_deliveries()) == ({BEYOND_BOUND: 3}, {})
    assert staged_ids(consumer, third) == ids[1:]
    assert bus.deliveries(TOPIC) == 1 + 4 + 3


def carry(staged: Staged, *numbers: int) -> None:
    """Carry events with these replay ids over from a staged batch."""
    events = [
        pb2.ConsumerEvent(
            replay_id=bytes([0, number]), event=pb2.ProducerEvent(id="x", payload=b"x")
        )
        for number in numbers
    ]
    beyond = Delivery(events=events, latest_replay_id=b"", pending=0, rpc_id="r", received_at=0)
    run = staged.manifest.run
    asyncio.run(carry_over(staged.topic_folder, staged.manifest, (beyond,), run, 10))


def test_a_begun_next_batch_drops_them(bus: Emulator, consumer: Consumer) -> None:
    """Events beyond a batch are dropped and counted if the next one has files already."""
    publish(bus, 1, 4)
    first = run(replace(consumer, bounds=ONE_EVENT))
    before = next_folder(first).parts()
    carry(first, 1, 2)
    assert (next_folder(first).parts(), [part.events for part in before]) == (before, [3])
    assert first.extra_deliveries() == {BEYOND_BOUND: 2}


def test_a_staged_next_batch_drops_them(bus: Emulator, consumer: Consumer) -> None:
    """Events beyond a batch are dropped and counted if the next one has its manifest already."""
    publish(bus, 1, 4)
    first = run(replace(consumer, bounds=ONE_EVENT))
    second = run(consumer)
    for part in second.manifest.parts:
        (second.folder.folder / part.path).unlink()
    carry(first, 1)
    assert (next_folder(first).parts(), first.extra_deliveries()) == ([], {BEYOND_BOUND: 1})


def test_what_memory_dropped_is_counted_beside_it(bus: Emulator, consumer: Consumer) -> None:
    """Events dropped for lack of memory, and those dropped by the next batch, are added up."""
    publish(bus, 1, 4)
    first = run(replace(consumer, bounds=ONE_EVENT))
    first.folder.count_extra_deliveries(
        {BEYOND_BOUND: 1}
    )  # an attempt before the one that wrote the manifest
    dropped = replace(first.manifest, extra_deliveries={BEYOND_BOUND: 1 + 4})
    carry(replace(first, manifest=dropped), 1, 2)
    assert first.folder.extra_deliveries_of(dropped) == {BEYOND_BOUND: 1 + 4 + 2}
