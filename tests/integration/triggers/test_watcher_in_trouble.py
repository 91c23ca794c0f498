"""A watcher with an error: it announces it once, spends nothing, and continues when it can."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from upath import UPath

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.area import StagingArea
from tests.integration.batches.conftest import TOPIC, Consumer, age_records, publish
from tests.integration.triggers.conftest import Watch, until, wrong

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.pubsub.auth.settings import Settings


def test_wrong_credentials(consumer: Consumer, bus: Emulator) -> None:
    """Wrong credentials start one failing run; the login is retried after a change, or later."""
    connection = [wrong(consumer.settings)]

    async def scenario() -> None:
        watch = Watch(consumer, settings=lambda: connection[0])
        async with watch.running():
            said = await watch.announced()
            assert (said["events"], said["batch_id"]) == (0, "")
            assert "The consumer secret is wrong" in said["trouble"]
            assert "not-the-secret" not in said["trouble"]
            refused = len(bus.requests)
            await watch.stays_silent(800)
            assert len(bus.requests) == refused
            await watch.announced(2)
            connection[0] = consumer.settings
            publish(bus, 1, 2)
            assert (await watch.announced_events())["events"] == 2

    asyncio.run(scenario())


def test_a_run_that_is_there_tells_it_itself(consumer: Consumer, bus: Emulator) -> None:
    """An error starts no run while one is queued or running, which fails by the same error."""

    async def scenario() -> None:
        watch = Watch(consumer, settings=lambda: wrong(consumer.settings), runs={"orders": 1})
        async with watch.running():
            await watch.stays_silent(800)
            watch.runs.clear()
            assert "trouble" in await watch.announced()

    asyncio.run(scenario())


def test_a_topic_that_is_not_there_yet(consumer: Consumer, bus: Emulator) -> None:
    """A missing topic is announced and notified once; a notifier that raises stops nothing."""
    notices = []

    def notifier(context: dict[str, Any]) -> None:
        notices.append(context["sfevents"])
        raise OSError("no route to the pager")

    async def scenario() -> None:
        watch = Watch(consumer, request={"topic": "/event/Late__e"}, notifier=notifier)
        async with watch.running():
            assert "/event/Late__e" in (await watch.announced())["trouble"]
            await watch.stays_silent(350)
            assert [(one["kind"], one["consumer"]) for one in notices] == [("watcher", "orders")]
            assert notices[0]["seen"] == watch.said[0]["trouble"]
            assert watch.errors == [notices[0]["seen"]]
            bus.define_event("Late__e", {"City__c": "Text"})
            bus.publish("/event/Late__e", [{"City__c": "Vienna"}])
            assert (await watch.announced_events())["events"] == 1
            assert watch.errors[1:] == [""]

    asyncio.run(scenario())


def test_listening_ends_the_last_error(consumer: Consumer, bus: Emulator) -> None:
    """A watcher that listens without an event is not shown with an error."""
    connection = [wrong(consumer.settings)]

    async def scenario() -> None:
        watch = Watch(consumer, settings=lambda: connection[0], well_seconds=0.01)
        async with watch.running():
            await watch.announced()
            assert len(watch.errors) == 1
            connection[0] = consumer.settings
            await until(lambda: watch.errors[1:] == [""], "the watcher listens")

    asyncio.run(scenario())


def test_a_replay_id_that_is_refused(consumer: Consumer, bus: Emulator) -> None:
    """After a run has chosen a new start for a refused replay id, the watcher continues."""
    publish(bus, 1, 1)
    consumer.run_once()
    bus.reset_replay_ids()

    async def scenario() -> None:
        async with Watch(consumer).running() as watch:
            assert "replay id" in (await watch.announced())["trouble"]
            publish(bus, 2, 2)
            consumer.replay_fallback = "earliest"
            await asyncio.to_thread(consumer.run_once)
            publish(bus, 4, 3)
            assert (await watch.announced_events())["events"] == 3

    asyncio.run(scenario())


def test_a_forgotten_position_is_begun_by_the_watchers_own_api(
    consumer: Consumer, bus: Emulator
) -> None:
    """A watcher in trouble looks at the position and writes none, so its next try begins it."""
    consumer.transport = "streaming"
    consumer.bounds = Bounds(idle_seconds=1.5)
    publish(bus, 1, 1)
    consumer.run_once()
    age_records(consumer, 96)
    bus.reset_replay_ids()
    topic = StagingArea(UPath(consumer.root)).topic(bus.org.org_id, "orders", TOPIC)

    async def scenario() -> None:
        settings = replace(consumer.settings, transport="streaming")
        async with Watch(consumer, settings=lambda: settings).running() as watch:
            assert "refused /event/Order__e" in (await watch.announced())["trouble"]
            topic.forget("2026-01-01T00:00:00+00:00", consumer.position.epoch)
            consumer.positions.clear()
            await until(lambda: consumer.positions, "the position is begun again")
            assert consumer.position.transport == "streaming"

    asyncio.run(scenario())


def test_a_corrected_transport(consumer: Consumer, bus: Emulator) -> None:
    """A watcher whose connection had the wrong API works again when it is corrected."""
    publish(bus, 1, 1)
    consumer.run_once()
    transport = ["streaming"]

    async def scenario() -> None:
        watch = Watch(consumer, settings=lambda: replace(consumer.settings, transport=transport[0]))
        async with watch.running():
            assert "replay ids of transport 'pubsub'" in (await watch.announced())["trouble"]
            publish(bus, 2, 2)
            transport[0] = "pubsub"
            assert (await watch.announced_events())["events"] == 2

    asyncio.run(scenario())


def test_a_position_that_cannot_be(consumer: Consumer, bus: Emulator) -> None:
    """An invalid position is announced, and the watcher continues after it is repaired."""
    publish(bus, 1, 1)
    consumer.run_once()
    good = consumer.positions["orders"]
    consumer.positions["orders"] = "{}"

    async def scenario() -> None:
        async with Watch(consumer).running() as watch:
            assert "does not hold a position" in (await watch.announced())["trouble"]
            publish(bus, 2, 2)
            consumer.positions["orders"] = good
            assert (await watch.announced_events())["events"] == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [RuntimeError("API server"), OSError("no route")])
def test_what_passes(consumer: Consumer, bus: Emulator, broken: Exception) -> None:
    """A passing error does not end a watcher, and starts a run only after it has lasted."""
    trouble = [broken]

    def settings() -> Settings:
        if trouble:
            raise trouble[0]
        return consumer.settings

    async def scenario() -> None:
        async with Watch(consumer, settings=settings).running() as watch:
            await watch.stays_silent(600)
            assert str(broken) in (await watch.announced())["trouble"]
            trouble.clear()
            publish(bus, 1, 1)
            assert (await watch.announced_events())["events"] == 1

    asyncio.run(scenario())


def test_a_service_that_is_away(consumer: Consumer, bus: Emulator) -> None:
    """An endpoint that does not answer is retried with growing pauses until it answers."""
    endpoint = ["127.0.0.1:1"]

    async def scenario() -> None:
        watch = Watch(consumer, settings=lambda: replace(consumer.settings, endpoint=endpoint[0]))
        async with watch.running():
            await until(lambda: watch.time.passed > 5, "failed tries")
            assert watch.said == []
            endpoint[0] = bus.endpoint
            publish(bus, 1, 1)
            assert (await watch.announced())["events"] == 1

    asyncio.run(scenario())
