"""Announcements of a watcher, with runs that stage, land and commit beside it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.waiting.watch_rules import Rules
from tests.integration.batches.conftest import TOPIC, Consumer, publish, write_receipt
from tests.integration.triggers.conftest import Watch, listening, until

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator

PATIENT = Rules(max_wait=3600)


def remembered(consumer: Consumer) -> int:
    """Number of announcements that are recorded in the staging area."""
    return len(list(consumer.root.rglob(layout.ANNOUNCED)))


def staged(consumer: Consumer) -> Staged:
    """A run has staged the next batch, and holds it."""
    batch = consumer.stage()
    assert isinstance(batch, Staged)
    return batch


def commit(consumer: Consumer, batch: Staged) -> None:
    write_receipt(batch)
    commit_batch(batch, consumer.run, keep_batches=10)
    batch.release()


def test_the_first_events_are_announced_at_once(consumer: Consumer, bus: Emulator) -> None:
    """Without a run, `max_wait` does not count: a burst starts one run, which takes all events."""

    async def scenario() -> None:
        async with Watch(consumer, PATIENT).running() as watch:
            await listening(bus)
            publish(bus, 1, 1)
            said = await watch.announced()
            assert said == {
                "topic": TOPIC,
                "consumer": "orders",
                "batch_id": f"{consumer.position.epoch}-1",
                "batch_number": 1,
                "events": 1,
                "staged": True,
            }
            publish(bus, 2, 4)
            await watch.stays_silent(100)
            assert bus.open_streams == 0
        assert (await asyncio.to_thread(staged, consumer)).manifest.events == 5
        assert bus.deliveries() == 5

    asyncio.run(scenario())


def test_a_topic_of_the_streaming_api(consumer: Consumer, bus: Emulator) -> None:
    """A watcher by the Streaming API stages and announces events as by the other one."""
    of_streaming = replace(consumer, transport="streaming")

    async def scenario() -> None:
        watch = Watch(consumer, settings=lambda: replace(consumer.settings, transport="streaming"))
        async with watch.running():
            publish(bus, 1, 3)
            said = await watch.announced()
            assert (said["batch_number"], said["staged"]) == (1, True)
        batch = await asyncio.to_thread(staged, of_streaming)
        assert (batch.manifest.events, batch.manifest.payload_format) == (3, "json")

    asyncio.run(scenario())


def test_events_are_gathered_while_a_run_is_queued_or_running(
    consumer: Consumer, bus: Emulator
) -> None:
    """While a run is at work, events are gathered for `max_wait`, and announced once."""

    async def scenario() -> None:
        async with Watch(consumer, runs={"orders": 1}).running() as watch:
            await listening(bus)
            publish(bus, 1, 5)
            await watch.announced()
            await watch.stays_silent(100)
        assert bus.deliveries() == 5

    asyncio.run(scenario())


def test_what_comes_while_a_run_is_at_work_is_announced_when_it_is_done(
    consumer: Consumer, bus: Emulator
) -> None:
    """Events that come during a run are announced after it, without a second run before."""

    async def scenario() -> None:
        publish(bus, 1, 2)
        async with Watch(consumer).running() as watch:
            await watch.announced()
            batch = await asyncio.to_thread(staged, consumer)
            publish(bus, 3, 4)
            await watch.stays_silent(1000)
            await asyncio.to_thread(commit, consumer, batch)
            said = await watch.announced(2)
            assert (said["batch_number"], said["events"]) == (2, 4)
        assert bus.deliveries() == 6

    asyncio.run(scenario())


def test_enough_events_are_announced_at_once(consumer: Consumer, bus: Emulator) -> None:
    """While a run is at work, `max_events` staged events are announced before `max_wait`."""

    async def scenario() -> None:
        busy = Watch(consumer, replace(PATIENT, max_events=3), runs={"orders": 1})
        async with busy.running() as watch:
            await listening(bus)
            publish(bus, 1, 1)
            await until(lambda: bus.deliveries() == 1, "a delivery")
            publish(bus, 2, 2)
            assert (await watch.announced())["events"] == 3

    asyncio.run(scenario())


def test_a_triggerer_started_anew_does_not_announce_again(
    consumer: Consumer, bus: Emulator
) -> None:
    """A recorded announcement is repeated only if no run lands the batch, each time later."""

    async def scenario() -> None:
        publish(bus, 1, 2)
        async with Watch(consumer).running() as watch:
            await watch.announced()
            await until(lambda: remembered(consumer) == 1, "the announcement is remembered")
        anew = Watch(consumer, time=watch.time)
        async with anew.running():
            await anew.stays_silent(800)
            assert (await anew.announced())["events"] == 2
            await anew.stays_silent(1000)
            await anew.announced(2)
        assert bus.deliveries() == 2

    asyncio.run(scenario())


def test_a_triggerer_killed_before_it_could_remember(consumer: Consumer, bus: Emulator) -> None:
    """An announcement that was not recorded is repeated, unless a run exists already."""

    async def scenario() -> None:
        publish(bus, 1, 2)
        async with Watch(consumer).running() as watch:
            await watch.announced()
        for mark in consumer.root.rglob(layout.ANNOUNCED):
            mark.unlink()
        busy = Watch(consumer, runs={"orders": 1})
        async with busy.running():
            await busy.stays_silent(1000)
            busy.runs.clear()
            assert (await busy.announced())["events"] == 2
        assert bus.deliveries() == 2

    asyncio.run(scenario())


def test_a_failed_run_does_not_let_events_expire(consumer: Consumer, bus: Emulator) -> None:
    """The batch of a failed run is announced again, if no other run is queued or running."""

    async def scenario() -> None:
        publish(bus, 1, 2)
        async with Watch(consumer).running() as watch:
            await watch.announced()
            batch = await asyncio.to_thread(staged, consumer)
            watch.runs["orders"] = 1
            batch.release()
            await watch.stays_silent(1000)
            watch.runs.clear()
            said = await watch.announced(2)
            assert (said["batch_number"], said["events"]) == (1, 2)

    asyncio.run(scenario())


def test_the_dag_that_staged_a_batch_is_asked_for_its_runs(
    consumer: Consumer, bus: Emulator
) -> None:
    """The runs counted are those of the DAG that staged the batch, not of the consumer's name."""
    consumer.run = replace(consumer.run, dag="load_orders")

    async def scenario() -> None:
        publish(bus, 1, 2)
        async with Watch(consumer, runs={"load_orders": 1}).running() as watch:
            await watch.announced()
            (await asyncio.to_thread(staged, consumer)).release()
            await watch.stays_silent(1000)

    asyncio.run(scenario())


def test_watchers_of_one_topic_use_one_subscription(consumer: Consumer, bus: Emulator) -> None:
    """Two consumers of a topic share one stream, and each has its own batch and announcement."""
    other = Consumer(bus=bus, root=consumer.root)

    async def scenario() -> None:
        mine, theirs = Watch(consumer), Watch(other, request={"consumer": "billing"})
        async with mine.running(), theirs.running():
            await until(lambda: bus.open_streams > 0, "a subscription")
            await listening(bus)
            publish(bus, 1, 3)
            assert (await mine.announced())["events"] == 3
            assert (await theirs.announced())["events"] == 3
        assert consumer.position.epoch != other.position.epoch

    asyncio.run(scenario())


def test_a_staging_area_that_the_triggerer_cannot_write(consumer: Consumer, bus: Emulator) -> None:
    """Without a writable staging area a run is started once, and warned of the redelivery."""
    consumer.root.parent.joinpath("file").write_text("in the way")
    consumer.run_once()

    async def scenario() -> None:
        publish(bus, 1, 2)
        watch = Watch(consumer, root=consumer.root.parent / "file" / "staging")
        async with watch.running():
            said = await watch.announced()
            assert (said["events"], said["staged"]) == (2, False)
            await watch.stays_silent(800)
        assert bus.deliveries() == 2

    asyncio.run(scenario())


def test_nothing_is_left_open(consumer: Consumer, bus: Emulator) -> None:
    """A cancelled watcher closes its stream and keeps the received events."""

    async def scenario() -> None:
        async with Watch(consumer, PATIENT, runs={"orders": 1}).running():
            await listening(bus)
            publish(bus, 1, 2)
            await until(lambda: bus.deliveries() == 2, "2 deliveries")
        await listening(bus, 0)

    asyncio.run(scenario())
    assert staged(consumer).manifest.events == 2
    assert bus.deliveries() == 2


def test_metrics_do_not_block_the_triggerers_loop(consumer: Consumer, bus: Emulator) -> None:
    """A watcher says in another thread that it listens, because a metric may wait for the DNS."""
    threads: list[threading.Thread] = []

    async def scenario() -> None:
        watch = Watch(
            consumer,
            look_seconds=0.01,
            well_seconds=0.01,
            listening=lambda _: threads.append(threading.current_thread()),
        )
        async with watch.running():
            await listening(bus)
            await until(lambda: len(threads) > 2, "a metric at the start and others later")

    asyncio.run(scenario())
    assert threading.current_thread() not in threads


def test_a_position_set_by_hand_is_followed(consumer: Consumer, bus: Emulator) -> None:
    """If the position is set back by hand, the events pending from there are announced."""
    publish(bus, 1, 2)
    consumer.run_once()

    async def scenario() -> None:
        async with Watch(consumer, look_seconds=0.1).running() as watch:
            await listening(bus)
            begun = replace(consumer.position, epoch="anew", batch_number=0, replay_id="earliest")
            consumer.positions["orders"] = replace(begun, batch_id="", recent=()).to_json()
            said = await watch.announced()
            assert (said["batch_id"], said["events"]) == ("anew-1", 2)

    asyncio.run(scenario())
