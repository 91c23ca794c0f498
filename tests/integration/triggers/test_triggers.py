"""The triggers as Airflow makes and runs them, in the test's event loop."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.execution_time import comms, task_runner

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.triggers.sfevents import (
    SfEventsTrigger,
    SfEventsWatchTrigger,
    runs_at_work,
)
from tests.integration.batches.conftest import TOPIC, Consumer, publish
from tests.integration.triggers import kept
from tests.integration.triggers.conftest import listening, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.emulator import Emulator

KEY = "sfevents.orders.event.Order__e"


@pytest.fixture(autouse=True)
def airflow(
    bus: Emulator, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """A connection as Airflow stores it, and an empty position store."""
    monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(bus.connection()))
    kept.POSITIONS.clear()
    yield monkeypatch
    kept.POSITIONS.clear()


def waits(
    consumer: Consumer, min_events: int = 1, seconds: float = 120, **over: Any
) -> SfEventsTrigger:
    """A trigger for the batch after a position that is at the beginning."""
    next_batch = {
        "org_id": consumer.bus.org.org_id,
        "consumer": "orders",
        "topic": TOPIC,
        "epoch": "e1",
        "batch_number": 1,
        "position_start": "earliest",
        "start": "earliest",
    }
    return SfEventsTrigger(
        next_batch={**next_batch, **over},
        conn_id="sfevents_default",
        staging=consumer.root.as_uri(),
        min_events=min_events,
        until=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(),
        run={"dag": "orders", "run": "r1", "task": "wait"},
    )


async def outcome(trigger: SfEventsTrigger) -> dict[str, Any]:
    events = [event.payload async for event in trigger.run()]
    assert len(events) == 1
    payload = json.loads(json.dumps(events[0]))
    assert isinstance(payload, dict)
    return payload


def watch(consumer: Consumer, **arguments: Any) -> SfEventsWatchTrigger:
    known = {"position_store": kept.PATH, "staging": consumer.root.as_uri(), "max_wait": 0.1}
    return SfEventsWatchTrigger(TOPIC, "orders", **{**known, **arguments})


def test_enough_is_pending(consumer: Consumer, bus: Emulator) -> None:
    """The trigger's one event comes with enough events, and no stream stays open."""

    async def scenario() -> None:
        waiting = asyncio.create_task(outcome(waits(consumer, 2)))
        await listening(bus)
        publish(bus, 1, 1)
        await until(lambda: bus.deliveries() == 1, "1 delivery")
        assert not waiting.done()
        publish(bus, 2, 1)
        said = await waiting
        assert said["status"] == "pending"
        assert (said["waited"]["events"], said["waited"]["staged"]) == (2, True)
        await listening(bus, 0)

    asyncio.run(scenario())


def test_a_triggerer_that_is_stopped(consumer: Consumer, bus: Emulator) -> None:
    """A stopped trigger leaves its events in a closed file, and the next one continues."""

    async def stopped() -> None:
        waiting = asyncio.create_task(outcome(waits(consumer, 3)))
        await listening(bus)
        publish(bus, 1, 2)
        await until(lambda: bus.deliveries() == 2, "2 deliveries")
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await listening(bus, 0)

    async def next_one() -> None:
        publish(bus, 3, 1)
        assert (await outcome(waits(consumer, 3)))["waited"]["events"] == 3

    asyncio.run(stopped())
    asyncio.run(next_one())
    assert bus.deliveries() == 3


def test_time_is_up(consumer: Consumer, bus: Emulator) -> None:
    """A trigger ends at the sensor's end of time, with its events staged."""

    def kept_files() -> int:
        return len(list(consumer.root.rglob("*.parquet")))

    async def scenario() -> None:
        publish(bus, 1, 1)
        for seconds in (2, 8, 32, 128):  # on a busy machine the event may come after the first
            said = await outcome(waits(consumer, 2, seconds=seconds))
            assert said["status"] == "timeout"
            await listening(bus, 0)
            if kept_files():
                break

    asyncio.run(scenario())
    assert kept_files() == 1


def test_a_service_that_is_away_for_a_while(
    consumer: Consumer, bus: Emulator, airflow: pytest.MonkeyPatch
) -> None:
    """A failure of the network does not end a wait."""
    there = bus.connection()
    away = {**there, "port": 1}
    airflow.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(away))

    async def scenario() -> None:
        publish(bus, 1, 1)
        waiting = asyncio.create_task(outcome(waits(consumer)))
        await until(lambda: bus.requests, "a login")
        airflow.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(there))
        assert (await waiting)["status"] == "pending"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("over", "status", "said"),
    [
        ({"start": "00ff"}, "refused", "replay id"),
        ({"topic": "/event/Oder__e"}, "error", "/event/Oder__e"),
    ],
)
def test_what_another_party_must_decide(
    consumer: Consumer, over: dict[str, Any], status: str, said: str
) -> None:
    """An error that needs a decision is the trigger's one event, with the message."""
    payload = asyncio.run(outcome(waits(consumer, **over)))
    assert payload["status"] == status
    assert said in payload["message"]
    assert payload.get("retry", False) is False


def test_a_watcher_in_airflow(consumer: Consumer, bus: Emulator) -> None:
    """A watcher finds connection, store and area by name; cancellation closes its stream."""

    async def scenario() -> None:
        async with aclosing(watch(consumer).run()) as events:
            publish(bus, 1, 2)
            first = await anext(events)
            assert json.loads(json.dumps(first.payload))["events"] == 2
            following = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        await listening(bus, 0)

    asyncio.run(scenario())
    assert json.loads(kept.POSITIONS[KEY])["owner"] == ""


def test_a_watcher_whose_connection_is_missing(
    consumer: Consumer, airflow: pytest.MonkeyPatch
) -> None:
    """A missing connection is announced, so that a run fails; the watcher does not end."""
    airflow.delenv("AIRFLOW_CONN_SFEVENTS_DEFAULT")

    async def scenario() -> None:
        async with aclosing(watch(consumer).run()) as events:
            said = (await anext(events)).payload
            assert "'sfevents_default' is not defined" in said["trouble"]
            assert said["events"] == 0

    asyncio.run(scenario())


def test_a_watcher_that_a_task_waits_for(consumer: Consumer, bus: Emulator) -> None:
    """A watcher that a task defers to fails at once and names the sensor to use."""
    trigger = watch(consumer)
    trigger.task_instance = SimpleNamespace(task_id="wait")

    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match=r"AssetWatcher.*SfEventsSensor"):
            await anext(trigger.run())

    asyncio.run(scenario())
    assert bus.requests == ()


def test_runs_at_work_are_asked_for(airflow: pytest.MonkeyPatch) -> None:
    """Queued and running runs are counted; if Airflow does not answer, there are none."""
    asked = []

    class Supervisor:
        def send(self, message: comms.GetDRCount) -> comms.DRCount:
            asked.append((message.dag_id, message.states))
            return comms.DRCount(count=2)

    assert runs_at_work("orders") == 0
    airflow.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(), raising=False)
    assert runs_at_work("orders") == 2
    assert asked == [("orders", ["queued", "running"])]
