"""A sensor waits in a worker or triggerer, and the task after it continues after its events."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.sensors.conftest import Waits

MODES: dict[str, dict[str, Any]] = {
    "poke": {"poke_interval": 0.05},
    "deferrable": {"deferrable": True},
}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)

KEY = "sfevents.orders.event.Order__e"


def position(waits: Waits) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(waits.positions[KEY])
    return kept


@each_mode
def test_events_that_are_there(waits: Waits, bus: Emulator, mode: dict[str, Any]) -> None:
    """Pending events are reported with their batch, no position moves, and none costs twice."""
    waits.publish(3)
    result = waits.wait(min_events=3, timeout=20, **mode)
    stands = position(waits)
    assert (stands["batch_number"], stands["replay_id"], stands["owner"]) == (0, "earliest", "")
    assert result == {
        "topic": "/event/Order__e",
        "consumer": "orders",
        "batch_id": f"{stands['epoch']}-1",
        "batch_number": 1,
        "events": 3,
        "staged": True,
        "staging_id": stands["staging_id"],
    }
    fetched = waits.fetch()
    assert (fetched["batch_id"], fetched["events"]) == (result["batch_id"], 3)
    assert bus.deliveries() == 3


@each_mode
def test_events_that_come_while_it_waits(waits: Waits, bus: Emulator, mode: dict[str, Any]) -> None:
    """A sensor wakes up with enough events, including those of earlier pokes."""
    waits.publish(1)
    with waits.publishing_once_subscribed(2):
        assert waits.wait(min_events=3, timeout=20, **mode)["events"] == 3
    assert waits.fetch()["events"] == 3
    assert bus.deliveries() == 3


@each_mode
def test_a_timeout_that_is_soft(waits: Waits, mode: dict[str, Any]) -> None:
    """With `soft_fail` a sensor that times out is skipped."""
    with pytest.raises(AirflowSkipException):
        waits.wait(timeout=0.4, soft_fail=True, **mode)


@each_mode
def test_the_event_that_wakes_it_at_latest_is_in_the_batch(
    waits: Waits, bus: Emulator, mode: dict[str, Any]
) -> None:
    """In a first run at `latest` no event is lost between sensor and fetch."""
    waits.publish(2)
    with waits.publishing_once_subscribed(1):
        assert waits.wait(timeout=20, initial_replay="latest", **mode)["events"] == 1
    waits.publish(1)
    assert waits.fetch(initial_replay="latest")["events"] == 2
    assert bus.deliveries() == 2


def test_a_position_moved_to_latest_while_a_trigger_waits(waits: Waits, bus: Emulator) -> None:
    """After the move the worker pins the position, and the next trigger waits from there."""

    def move() -> None:
        old = record.Position.from_json(waits.positions[KEY], KEY)
        moved = record.begin(
            org_id=old.org_id,
            instance_url=old.instance_url,
            topic=old.topic,
            consumer=old.consumer,
            start="latest",
            at=datetime.now(UTC).isoformat(),
            by=Run(),
            previous_epoch=old.epoch,
        )
        waits.positions[KEY] = moved.to_json()
        waits.between = partial(waits.publish, 1)
        waits.publish(1)  # wakes the trigger, and is before `latest`

    waits.between = move
    assert waits.wait(timeout=20, deferrable=True)["events"] == 1
    assert len(waits.deferrals) == 2
    assert position(waits)["replay_id"] != "latest"


def test_a_deferral_keeps_its_deadline(waits: Waits) -> None:
    """`timeout` counts from the first deferral, and each trigger gets the rest of it."""
    waits.publish(1)
    waits.between = waits.land
    with pytest.raises(AirflowSensorTimeout):
        waits.wait(min_events=2, timeout=8, deferrable=True)
    assert [one.trigger.next_batch["batch_number"] for one in waits.deferrals] == [1, 2]
    untils = {deferred.trigger.until for deferred in waits.deferrals}
    assert len(untils) == 1
    left = [deferred.timeout.total_seconds() for deferred in waits.deferrals]
    assert left == sorted(left, reverse=True)
    assert left[0] <= 8


def test_a_timeout_of_nothing_is_one_look(waits: Waits, bus: Emulator) -> None:
    """`timeout=0` looks once and does not defer."""
    with pytest.raises(AirflowSensorTimeout):
        waits.wait(timeout=0, deferrable=True)
    assert waits.deferrals == []


def test_what_is_deferred_is_no_secret(waits: Waits, bus: Emulator) -> None:
    """Trigger arguments and events, which Airflow stores, hold no secret."""
    waits.publish(1)
    waits.wait(deferrable=True, timeout=20)
    stored = [str(deferred.trigger.serialize()) for deferred in waits.deferrals]
    stored += [str(event) for event in waits.events]
    assert stored
    assert not [text for text in stored if bus.org.consumer_secret in text]


def test_a_poke_that_is_killed(waits: Waits, bus: Emulator) -> None:
    """`on_kill` ends the stream at once, and received events stay staged."""
    waits.publish(1)
    sensor, context = waits.prepare(
        SfEventsSensor, task_id="wait", min_events=2, idle_seconds=600, timeout=600
    )
    ended: list[BaseException] = []

    def run() -> None:
        try:
            sensor.execute(context)
        except BaseException as error:  # noqa: BLE001 - told to the test
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    bus.wait_open_streams(1)
    while bus.deliveries() < 1:
        threading.Event().wait(0.01)
    sensor.on_kill()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(ended[0], AirflowException)
    bus.wait_open_streams(0)
    assert waits.fetch()["events"] == 1
    assert bus.deliveries() == 1
