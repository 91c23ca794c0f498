from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.managed.managed_rules import SlotTakenError
from tests.integration.batches.conftest import TOPIC, publish, staged_ids, until
from tests.integration.batches.managing import (
    NAME,
    PATIENT,
    ManagedConsumer,
    at_step,
    define,
    managed_bus,
    refused,
)

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery


def test_a_subscription_that_loses_silently_is_refused(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A subscription with errorRecoveryReplay LATEST is refused unless the user accepts it."""
    define(bus, error_recovery_replay="LATEST")
    ids = publish(bus, 1, 2)
    assert "errorRecoveryReplay LATEST" in refused(consumer.stage)
    assert (consumer.positions, bus.deliveries()) == ({}, 0)
    consumer.allow_latest_recovery = True
    assert staged_ids(consumer, consumer.run_once()) == ids


def test_a_subscription_of_another_topic_is_refused(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A managed subscription of another topic is refused."""
    bus.define_event("Other__e", {"A__c": "Text"})
    bus.define_managed_subscription(
        NAME, "/event/Other__e", default_replay="EARLIEST", error_recovery_replay="EARLIEST"
    )
    assert "has topic /event/Other__e, and the task's topic is /event/Order__e" in refused(
        consumer.stage
    )


def test_one_that_is_not_there_is_named(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A missing managed subscription is named in the error, by its name or its id."""
    assert "the org has none with this developer name" in refused(consumer.stage)
    consumer.managed = "18x000000000001AAA"
    assert "the org has none with this id" in refused(consumer.stage)


@pytest.mark.full
def test_the_id_does_as_well_as_the_name(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A managed subscription may be given by its id."""
    config = define(bus)
    ids = publish(bus, 1, 2)
    consumer.managed = config.id
    assert staged_ids(consumer, consumer.run_once()) == ids


def test_a_second_consumer_is_refused(
    bus: Emulator, consumer: ManagedConsumer, tmp_path: Path
) -> None:
    """A second consumer of a managed subscription is refused, as each would miss events."""
    config = define(bus)
    publish(bus, 1, 2)
    consumer.run_once()
    other = ManagedConsumer(bus=bus, root=consumer.root, consumer="copies", managed=config.id)
    assert "delivers to consumer 'orders'" in refused(other.stage)


def test_a_stopped_one_is_refused(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A stopped subscription is refused, with the remedy and the effect of STOP."""
    define(bus, state="STOP")
    assert "has state STOP" in refused(consumer.stage)


def test_stopped_while_it_delivers(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A subscription stopped during a fetch leaves a batch that lands; then the task fails."""
    define(bus)
    ids = publish(bus, 1, 3)
    consumer.bounds = Bounds(idle_seconds=10)

    async def run() -> Staged:
        task = asyncio.create_task(consumer.stage_until(asyncio.Event()))
        await until(lambda: bus.deliveries() == 3)
        bus.set_managed_subscription(NAME, state="STOP")
        staged = await task
        assert isinstance(staged, Staged)
        return staged

    staged = asyncio.run(run())
    assert staged_ids(consumer, staged) == ids
    assert staged.manifest.ended_by == "error"
    assert "state to RUN" in staged.manifest.error
    staged.release()


@pytest.mark.full
def test_deleted_before_the_commit(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A batch lands although its subscription was deleted before the commit."""
    define(bus)
    ids = publish(bus, 1, 3)
    with at_step(steps.MANAGED_COMMIT_NEXT, lambda: bus.delete_managed_subscription(NAME)):
        assert staged_ids(consumer, consumer.run_once()) == ids
    assert consumer.position.batch_number == 1


@pytest.mark.full
def test_a_new_one_is_waited_for(tmp_path: Path) -> None:
    """A subscription that the Pub/Sub API does not know yet is waited for, and then an error."""
    with managed_bus(managed_propagation_seconds=120.0) as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        bus.managed.create(NAME, TOPIC, default_replay="EARLIEST", error_recovery_replay="EARLIEST")
        ids = publish(bus, 1, 2)
        consumer.timeouts = replace(PATIENT, propagation_seconds=0.3)
        with pytest.raises(TransportError, match="the Pub/Sub API does not know it yet"):
            consumer.stage()
        consumer.timeouts = PATIENT

        async def run() -> Staged:
            task = asyncio.create_task(consumer.stage_until(asyncio.Event()))
            asyncio.get_running_loop().call_later(0.4, lambda: bus.clock.advance(seconds=130))
            staged = await task
            assert isinstance(staged, Staged)
            return staged

        assert staged_ids(consumer, asyncio.run(run())) == ids


def test_another_client_has_the_slot(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A task waits for the subscription's other client, then fails and names possible ones."""
    define(bus)
    ids = publish(bus, 1, 2)

    async def run() -> Staged:
        async with consumer.client() as other, other.managed(NAME, TOPIC) as holding:
            listening = holding.deliveries(1)
            first = await anext(listening)
            assert len(first) == 1
            consumer.timeouts = replace(PATIENT, slot_seconds=0.3)
            with pytest.raises(
                SlotTakenError, match="has another client, and the service admits one"
            ):
                await consumer.stage_until(asyncio.Event())
            consumer.timeouts = PATIENT
            task = asyncio.create_task(consumer.stage_until(asyncio.Event()))
            await asyncio.sleep(0.2)
            await listening.aclose()
        staged = await task
        assert isinstance(staged, Staged)
        return staged

    assert staged_ids(consumer, asyncio.run(run())) == ids


@pytest.mark.full
def test_a_stream_without_commits_is_opened_anew(tmp_path: Path) -> None:
    """A stream that the service closes for lack of commits is opened again without a repetition."""
    with managed_bus(commit_deadline_seconds=0.4, keepalive_seconds=30) as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        define(bus)
        consumer.bounds = Bounds(idle_seconds=1.5, max_seconds=120)

        async def run() -> Staged:
            task = asyncio.create_task(consumer.stage_until(asyncio.Event()))
            await until(lambda: len(bus.subscriptions) == 2)
            await asyncio.to_thread(publish, bus, 1, 3)
            staged = await task
            assert isinstance(staged, Staged)
            return staged

        staged = asyncio.run(run())
        assert staged.manifest.events == 3


@pytest.mark.full
def test_the_last_place_is_committed_again_in_time(tmp_path: Path) -> None:
    """The last replay id is committed again in time, so that the service keeps the stream open."""
    with managed_bus(commit_deadline_seconds=1.5, keepalive_seconds=0.2) as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        define(bus)
        ids = publish(bus, 1, 1)
        fast = Clock(monotonic=lambda: time.monotonic() * 1000)  # ten minutes are 0.6 s
        timeouts = replace(PATIENT, silence_seconds=1e9)

        async def run() -> int:
            async with (
                PubSubClient(consumer.settings, clock=fast, timeouts=timeouts) as client,
                client.managed(NAME, TOPIC) as managed,
            ):
                listening = managed.deliveries(5)
                await anext(listening)
                assert await managed.commit(ids[0]) == ""
                for _ in range(14):
                    await anext(listening)
                await listening.aclose()
            [stream] = bus.subscriptions
            assert {commit.replay_id.hex() for commit in stream.commits} == set(ids)
            return len(stream.commits)

        assert asyncio.run(run()) >= 3


@pytest.mark.full
def test_a_wait_with_something_staged_keeps_its_stream(tmp_path: Path) -> None:
    """A wait with staged events repeats the last batch's end to keep its stream open."""
    with managed_bus(commit_deadline_seconds=10.0, keepalive_seconds=0.2) as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        define(bus)
        ids = publish(bus, 1, 1)
        consumer.run_once()
        fast = Clock(monotonic=lambda: time.monotonic() * 100)  # ten minutes are 6 s
        timeouts = replace(PATIENT, silence_seconds=1e9)

        async def run() -> None:
            async with (
                PubSubClient(consumer.settings, clock=fast, timeouts=timeouts) as client,
                client.managed(NAME, TOPIC) as managed,
            ):
                await managed.fetch(
                    Bounds(idle_seconds=2500, max_seconds=20_000),
                    ignore_delivery,
                    kept_replay_id=ids[0],
                    already=StagedProgress(events=1),
                )

        async def ignore_delivery(_: Delivery) -> None:
            raise AssertionError("nothing is new")

        asyncio.run(run())
        _, stream = bus.subscriptions
        assert len(stream.commits) >= 2
        assert {(commit.replay_id.hex(), commit.error) for commit in stream.commits} == {
            (ids[0], "")
        }


def test_coalesced_answers_settle_all_commits(bus: Emulator, consumer: ManagedConsumer) -> None:
    """One answer to several commits settles all of them, and says why one was refused."""
    define(bus)
    ids = publish(bus, 1, 5)

    async def run() -> list[str]:
        async with consumer.client() as client, client.managed(NAME, TOPIC) as managed:
            listening = managed.deliveries(5)
            came = 0
            while came < 5:
                came += len(await anext(listening))
            answers = await asyncio.gather(*(managed.commit(one) for one in (ids[0], ids[2])))
            older = await managed.commit(ids[0])
            await listening.aclose()
            return [*answers, older]

    first, second, older = asyncio.run(run())
    assert (first, second) == ("", "")
    assert older
    assert consumer.committed == ids[2]
