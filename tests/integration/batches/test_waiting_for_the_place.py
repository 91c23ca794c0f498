"""Waits at `latest`, on quiet topics and at old replay ids: the position stays valid."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import PositionConflictError, StagingError, TransportError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.waiting import batch_status
from tests.integration.batches.conftest import (
    TOPIC,
    age_records,
    publish,
    staged_ids,
    until,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.waiting.poke import Pending
    from tests.integration.batches.conftest import Consumer, Waiter


@pytest.fixture
def at_latest(bus: Emulator, consumer: Consumer) -> Consumer:
    """Return the request of a first run that skips what the bus holds."""
    publish(bus, 1, 3)
    consumer.initial_replay = "latest"
    return consumer


def keepalive_point(waiter: Waiter) -> KeepalivePoint | None:
    org = waiter.consumer.bus.org.org_id
    return waiter.area.topic(org, "orders", TOPIC).read_keepalive_point()


def test_the_event_that_woke_a_wait_at_latest_is_in_the_batch(
    bus: Emulator, at_latest: Consumer, waiter: Waiter
) -> None:
    """A wait at `latest` pins and stages its first event, and the task's batch begins with it."""
    bus.pause_keepalives()

    async def run() -> tuple[list[str], Pending]:
        poking = asyncio.create_task(waiter.poke_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        ids = publish(bus, 4, 1)
        pending = await poking
        return ids + publish(bus, 5, 2), pending

    ids, pending = asyncio.run(run())
    assert (pending.events, pending.staged, pending.enough) == (1, True, True)
    position = at_latest.position
    assert (position.start.to_text(), position.pinned_by) == (ids[0], "event")
    assert staged_ids(at_latest, at_latest.run_once()) == ids
    assert bus.deliveries(TOPIC) == 3


def test_a_wait_at_latest_keeps_others_out_until_a_keepalive_pins_it(
    bus: Emulator, at_latest: Consumer, waiter: Waiter
) -> None:
    """A wait at `latest` holds the lease until a keepalive pins it; then any task may continue."""
    bus.pause_keepalives()

    async def run() -> None:
        first = asyncio.create_task(waiter.poke_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        held = await waiter.poke_until(asyncio.Event())
        assert (held.enough, "held by task orders.wait" in held.why) == (False, True)
        assert bus.open_streams == 1
        assert at_latest.positions == {}
        bus.resume_keepalives()
        assert not (await first).enough

    asyncio.run(run())
    assert (at_latest.position.pinned_by, at_latest.position.is_pinned) == ("keepalive", True)
    assert not batch_status.read_status(waiter.next_batch(), waiter.area).held_by
    ids = publish(bus, 4, 2)
    assert staged_ids(at_latest, at_latest.run_once()) == ids


def test_pokes_at_latest_miss_nothing_between_them(
    bus: Emulator, at_latest: Consumer, waiter: Waiter
) -> None:
    """Events published between two pokes at `latest` are found by the second."""
    assert not waiter.poke().enough
    ids = publish(bus, 4, 2)
    assert waiter.poke().enough
    assert staged_ids(at_latest, at_latest.run_once()) == ids
    assert bus.deliveries(TOPIC) == 2


def test_a_poke_at_latest_that_learned_nothing_is_a_retry(
    bus: Emulator, at_latest: Consumer, waiter: Waiter
) -> None:
    """A poke at `latest` without a keepalive or event fails for a retry."""
    bus.pause_keepalives()
    waiter.bounds, waiter.learn_seconds = Bounds(idle_seconds=0.1), 0.2
    with pytest.raises(TransportError, match="would be missed"):
        waiter.poke()


def test_latest_needs_the_staging_area(bus: Emulator, at_latest: Consumer, waiter: Waiter) -> None:
    """If the staging area cannot be written, a wait at `latest` fails before a request."""
    waiter.root = at_latest.root.with_name("not a folder")
    waiter.root.write_text("")
    with pytest.raises(StagingError, match="A file is where a folder must be"):
        waiter.poke()
    assert (bus.deliveries(TOPIC), at_latest.positions) == (0, {})


def test_an_event_that_pinned_latest_elsewhere_is_not_given_up(
    bus: Emulator, at_latest: Consumer, waiter: Waiter
) -> None:
    """A task that cannot see the pinning event is refused, and lands it with the sensor's area."""
    bus.pause_keepalives()
    elsewhere = replace(waiter, root=at_latest.root.with_name("sensor's"))

    async def run() -> list[str]:
        poking = asyncio.create_task(elsewhere.poke_until(asyncio.Event()))
        await until(lambda: bus.open_streams == 1)
        ids = publish(bus, 4, 1)
        await poking
        return ids + publish(bus, 5, 2)

    ids = asyncio.run(run())
    before = at_latest.position
    with pytest.raises(PositionConflictError, match="which is staged in staging area"):
        at_latest.run_once()
    assert at_latest.position == before
    at_latest.root = elsewhere.root or at_latest.root
    assert staged_ids(at_latest, at_latest.run_once()) == ids


def test_a_keepalive_that_pinned_latest_elsewhere_counts_everywhere(
    bus: Emulator, at_latest: Consumer, waiter: Waiter
) -> None:
    """A task with another area fetches all events after a keepalive's pin, and counts the extra."""
    elsewhere = replace(waiter, root=at_latest.root.with_name("sensor's"))
    assert not elsewhere.poke().enough
    ids = publish(bus, 4, 2)
    assert elsewhere.poke().enough
    staged = at_latest.run_once()
    assert staged_ids(at_latest, staged) == ids
    assert isinstance(staged, Staged)
    assert staged.manifest.extra_deliveries == {"staged_elsewhere": 1}


@pytest.mark.parametrize("parts", [0, 2], ids=["nothing staged", "two of ten staged"])
def test_three_silent_days_of_waiting_expire_nothing(
    bus: Emulator, consumer: Consumer, waiter: Waiter, parts: int
) -> None:
    """Three days of waits with only keepalives expire no replay id, and cost no extra delivery."""
    publish(bus, 1, 1)
    consumer.run_once()
    waiter.min_events = 10
    ids = publish(bus, 2, parts)
    assert waiter.poke().events == parts
    next_batch = waiter.next_batch()
    for hours in (1, 40, 40):
        bus.clock.advance(hours=hours)
        age_records(consumer, hours)
        before = keepalive_point(waiter)
        asyncio.run(one_keepalive(waiter, next_batch, before))
    ids += publish(bus, 4, 1)
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert (consumer.position.losses, bus.deliveries(TOPIC)) == ((), parts + 2)


async def one_keepalive(
    waiter: Waiter, next_batch: NextBatch, before: KeepalivePoint | None
) -> None:
    listening = asyncio.create_task(waiter.wait(next_batch))
    await until(lambda: keepalive_point(waiter) != before)
    listening.cancel()
    await asyncio.wait((listening,))


def test_an_old_position_is_renewed_by_a_poke(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A poke at a position older than 12 hours waits for a keepalive, once."""
    publish(bus, 1, 1)
    consumer.run_once()
    waiter.bounds = Bounds(idle_seconds=0.05)
    waiter.poke()
    assert keepalive_point(waiter) is None
    age_records(consumer, 13)
    waiter.poke()
    renewed = keepalive_point(waiter)
    assert renewed is not None
    waiter.poke()
    assert keepalive_point(waiter) == renewed


@pytest.mark.parametrize("how", ["wait", "task"])
def test_a_refused_keepalive_point_costs_nothing(
    bus: Emulator, consumer: Consumer, waiter: Waiter, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An invalid keepalive point is replaced by the end of the files, which are kept."""
    publish(bus, 1, 1)
    consumer.run_once()
    waiter.min_events = 3
    ids = publish(bus, 2, 2)
    waiter.poke()
    next_batch = waiter.next_batch()
    next_batch.topic_folder(waiter.area).write_keepalive_point(
        KeepalivePoint(
            epoch=next_batch.epoch,
            batch_number=next_batch.batch_number - 1,
            replay_id="ff" * 10,
            seen_at=consumer.position.committed_at,
            after=ids[-1],
        )
    )
    ids += publish(bus, 4, 1)
    with caplog.at_level(logging.WARNING):
        if how == "wait":
            assert asyncio.run(waiter.wait(next_batch)).events == 3
        staged = consumer.run_once()
    assert staged_ids(consumer, staged) == ids
    assert "is refused; continuing after" in caplog.text
    assert (consumer.position.losses, bus.deliveries(TOPIC)) == ((), 4)


def test_a_batch_begun_at_latest_is_one(bus: Emulator, at_latest: Consumer, waiter: Waiter) -> None:
    """A batch at `latest`, staged by waits and task around a keepalive, holds each event once."""
    waiter.min_events = 10
    waiter.poke()
    ids = publish(bus, 4, 2)
    waiter.poke()
    ids += publish(bus, 6, 2)
    waiter.poke()
    ids += publish(bus, 8, 2)
    staged = at_latest.run_once()
    assert isinstance(staged, Staged)
    assert staged_ids(at_latest, staged) == ids
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (6, 6)
    assert staged.manifest.start == staged.manifest.position_start
