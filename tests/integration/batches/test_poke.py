"""A sensor that pokes ahead of the fetching task: its result, its staged events, and its cost."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.exceptions import (
    PositionConflictError,
    StoppedError,
    TopicError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from tests.integration.batches.conftest import (
    TOPIC,
    expire,
    publish,
    staged_ids,
    until,
    write_receipt,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.batches.conftest import Consumer, Waiter


def test_nothing_is_pending(bus: Emulator, consumer: Consumer, waiter: Waiter) -> None:
    """On a silent topic a poke begins the position without an owner, and reports too few events."""
    pending = waiter.poke()
    assert (pending.enough, pending.events) == (False, 0)
    assert (consumer.position.batch_number, consumer.position.owner) == (0, "")
    assert bus.open_streams == 0


def test_what_a_poke_received_is_the_batchs_first_part(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A task continues after a poke's events: each is delivered once and landed once."""
    ids = publish(bus, 1, 3)
    pending = waiter.poke()
    assert pending.next_batch is not None
    assert (pending.enough, pending.staged, pending.events) == (True, True, 1)
    ids += publish(bus, 4, 2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged.manifest.batch_id == pending.next_batch.batch_id
    assert staged_ids(consumer, staged) == ids
    assert (bus.deliveries(TOPIC), consumer.position.owner) == (5, "orders.land")


def test_a_poke_asks_for_no_more_than_it_needs(bus: Emulator, waiter: Waiter) -> None:
    """A poke requests only the events that `min_events` lacks."""
    publish(bus, 1, 200)
    waiter.min_events = 7
    assert waiter.poke().events == 7
    assert bus.deliveries(TOPIC) == 7


def test_enough_is_reached_over_several_pokes(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Several pokes add up to one batch, each event delivered once."""
    waiter.min_events = 10
    ids = publish(bus, 1, 4)
    first = waiter.poke()
    ids += publish(bus, 5, 4)
    second = waiter.poke()
    ids += publish(bus, 9, 4)
    third = waiter.poke()
    assert [one.events for one in (first, second, third)] == [4, 8, 10]
    assert [one.enough for one in (first, second, third)] == [False, False, True]
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert bus.deliveries(TOPIC) == 12


def test_a_poke_that_is_ended_keeps_what_came(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A stopped poke leaves its events staged and the lease released."""
    waiter.min_events, waiter.bounds = 10, Bounds(idle_seconds=60)

    async def poke_and_end() -> None:
        stopping = asyncio.Event()
        poking = asyncio.create_task(waiter.poke_until(stopping))
        publish(bus, 1, 4)
        await until(lambda: bus.deliveries(TOPIC) == 4)
        stopping.set()
        await poking

    with pytest.raises(
        StoppedError, match=r"waited for /event/Order__e; what came \(\d events\) stays staged"
    ):
        asyncio.run(poke_and_end())
    publish(bus, 5, 6)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (10, 10)


def test_enough_that_is_staged_costs_nothing_more(bus: Emulator, waiter: Waiter) -> None:
    """A second poke, or another sensor, finds the staged events and requests none."""
    publish(bus, 1, 3)
    waiter.poke()
    streams = len(bus.subscriptions)
    rerun = waiter.poke()
    assert (rerun.enough, rerun.events) == (True, 1)
    assert (bus.deliveries(TOPIC), len(bus.subscriptions)) == (1, streams)


@pytest.mark.parametrize("landed", [False, True], ids=["staged", "landed, not committed"])
def test_a_whole_batch_is_enough(
    bus: Emulator, consumer: Consumer, waiter: Waiter, landed: bool
) -> None:
    """A whole batch is enough for a poke, however few events it has."""
    publish(bus, 1, 2)
    left = consumer.stage()
    assert isinstance(left, Staged)
    if landed:
        write_receipt(left)
    left.release()
    waiter.min_events = 50
    pending = waiter.poke()
    assert (pending.enough, pending.events, pending.staged) == (True, 2, True)
    assert bus.deliveries(TOPIC) == 2


def test_a_batch_that_another_task_works_on_is_not_pending(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A poke names the lease holder, and does not subscribe while that process works."""
    publish(bus, 1, 2)
    holding = consumer.stage()
    streams = len(bus.subscriptions)
    pending = waiter.poke()
    assert not pending.enough
    assert "held by task orders.land of run r1" in pending.why
    assert len(bus.subscriptions) == streams
    holding.release()
    assert waiter.poke().enough


def test_while_another_task_begins_the_position_nothing_is_pending(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A poke gives way while another task begins the position, and begins no second epoch."""
    publish(bus, 1, 2)
    area = StagingArea(UPath(consumer.root)).topic(bus.org.org_id, "orders", TOPIC)
    with area.take_beginning_lease(LeaseHolder.here(consumer.run, "now")):
        pending = waiter.poke()
    assert (pending.enough, pending.next_batch, bus.deliveries(TOPIC)) == (False, None, 0)


@pytest.mark.parametrize("how", ["cleared", "backfill"])
def test_a_run_of_the_past_has_nothing_to_wait_for(
    bus: Emulator, consumer: Consumer, waiter: Waiter, how: str
) -> None:
    """A sensor of a rerun whose task staged a batch has enough, without a delivery."""
    start, end = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    consumer.run = replace(consumer.run, data_interval_start=start, data_interval_end=end)
    publish(bus, 1, 3)
    consumer.run_once()
    consumer.run = replace(consumer.run, run="r2", data_interval_end="2026-01-03T00:00:00+00:00")
    publish(bus, 4, 3)
    consumer.run_once()
    setattr(consumer, how, True)
    waiter.run = replace(
        waiter.run,
        run="r1" if how == "cleared" else "b1",
        data_interval_start=start,
        data_interval_end=end,
    )
    pending = waiter.poke()
    assert (pending.enough, pending.events, bus.deliveries(TOPIC)) == (True, 3, 6)


def test_a_backfill_whose_batch_is_gone_is_refused(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A sensor of a backfill without a batch is refused, and waits for no live events."""
    publish(bus, 1, 3)
    consumer.run_once()
    consumer.backfill = True
    waiter.run = replace(waiter.run, run="b1", data_interval_end="2020-01-01T00:00:00+00:00")
    with pytest.raises(PositionConflictError, match="never fetches live events"):
        waiter.poke()


def test_a_topic_that_cannot_be_read_is_refused_at_once(
    consumer: Consumer, waiter: Waiter, bus: Emulator
) -> None:
    """A mistyped topic is refused before a position is begun."""
    consumer.topic = "/event/Oder__e"
    with pytest.raises(TopicError, match="/event/Oder__e"):
        waiter.poke()
    assert consumer.positions == {}


def test_a_fallback_chosen_by_the_user_is_taken_by_a_poke(
    bus: Emulator, consumer: Consumer, waiter: Waiter, caplog: pytest.LogCaptureFixture
) -> None:
    """A poke writes the loss window of a fallback, and the task commits that window once."""
    old = expire(bus, consumer)
    ids = publish(bus, 6, 5)
    consumer.replay_fallback = "earliest"
    with caplog.at_level(logging.WARNING):
        pending = waiter.poke()
    assert (pending.enough, pending.events) == (True, 1)
    assert "LOSS WINDOW" in caplog.text
    consumer.replay_fallback = "fail"
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert [(one.after, one.start) for one in consumer.position.losses] == [(old, "earliest")]
    assert bus.deliveries(TOPIC) == 10


def test_files_whose_end_is_refused_land_first(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Staged events are enough, however few, if the bus refuses to continue after them."""
    waiter.min_events = 10
    publish(bus, 1, 4)
    waiter.poke()
    bus.clock.advance(hours=80)
    pending = waiter.poke()
    assert (pending.enough, pending.events) == (True, 4)
    assert "lands first" in pending.why
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, staged.manifest.ended_by) == (4, "error")


def test_a_second_fetching_task_is_refused_and_a_sensor_is_not(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A second fetching task of a position is refused, and a sensor of any task is not."""
    publish(bus, 1, 2)
    waiter.poke()
    consumer.run_once()
    publish(bus, 3, 2)
    other = replace(consumer, run=replace(consumer.run, task="other", run="r2"))
    with pytest.raises(PositionConflictError, match=r"belongs to task orders\.land"):
        other.stage()
    waiter.run = replace(waiter.run, task="other_sensor")
    assert waiter.poke().enough


def test_a_poke_of_another_sensor_meanwhile_doubles_nothing(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """Of two sensors that listen at once, one stages the events, and the batch holds each once."""
    waiter.bounds = Bounds(idle_seconds=1.0)
    waiter.poke()  # begins the position

    async def both() -> None:
        pokes = [asyncio.create_task(waiter.poke_until(asyncio.Event())) for _ in range(2)]
        await until(lambda: bus.open_streams == 2)
        publish(bus, 1, 1)
        await asyncio.gather(*pokes)

    asyncio.run(both())
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (1, 2)
    leases = list((consumer.root / staged.folder.folder / layout.ATTEMPTS).iterdir())
    assert len([one for one in leases if any(one.iterdir())]) == 1


def test_an_empty_fetch_after_a_poke_is_empty(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A poke without events leaves no file for the task."""
    waiter.poke()
    assert isinstance(consumer.run_once(), Empty)


@pytest.mark.parametrize("pokes", [1, 2])
def test_a_batch_that_a_sensor_filled_alone_knows_when_its_last_event_was_created(
    bus: Emulator, consumer: Consumer, waiter: Waiter, pokes: int
) -> None:
    """A task without new events reads the last event's time from the sensor's last file."""
    last = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for poke in range(pokes):
        times = [last + timedelta(minutes=minute) for minute in (1, 2, 3)]
        last = times[-1]
        bus.publish(TOPIC, [{"CreatedDate": int(at.timestamp() * 1000)} for at in times])
        waiter.min_events = 3 * (poke + 1)
        waiter.poke()
    delivered = bus.deliveries(TOPIC)
    consumer.bounds = Bounds(idle_seconds=0.2, max_events=3 * pokes)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (3 * pokes, delivered)
    assert staged.manifest.last_event_at == last.isoformat()
    assert consumer.position.last_event_at == last.isoformat()
