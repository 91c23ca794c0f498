"""The registry of managed subscriptions: setup, propagation and committed ids."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedRefusedError
from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "/event/Order__e"


class Place:
    """A bus with one topic, a fixed clock and a registry."""

    def __init__(self, path: Path | None = None, **knobs: object) -> None:
        self.clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.bus = Bus(name="00D", clock=self.clock, knobs=Knobs(**knobs))  # type: ignore[arg-type]
        self.bus.define(BusTopic(name=TOPIC, kind="event", can_publish=True))
        self.registry = ManagedRegistry(bus=self.bus, clock=self.clock, path=path)

    def publish(self, count: int) -> list[bytes]:
        return self.bus.append(TOPIC, [EncodedEvent(str(n), "s", b"") for n in range(count)])


def test_changes_spread_with_time() -> None:
    """The service uses the earlier config until a creation, change or deletion has propagated."""
    place = Place(managed_propagation_seconds=120)
    config = place.registry.create("Lake", TOPIC)
    assert (place.registry.known("Lake"), place.registry.spreads_in(config.id)) == (None, 120.0)
    place.clock.advance(minutes=2)
    assert place.registry.known("Lake") == config
    stopped = place.registry.update("Lake", state="STOP")
    assert place.registry.known(config.id) == config
    place.clock.advance(minutes=2)
    assert place.registry.known(config.id) == stopped
    place.registry.delete("Lake")
    assert (place.registry.find("Lake"), place.registry.known("Lake")) == (None, stopped)
    assert place.registry.was_deleted(config.id)
    place.clock.advance(minutes=2)
    assert place.registry.known("Lake") is None


def test_a_second_change_starts_from_what_is_known_then() -> None:
    """Two changes in a row take effect when the later one has propagated."""
    place = Place(managed_propagation_seconds=120)
    place.registry.create("Lake", TOPIC)
    place.clock.advance(minutes=1)
    place.registry.update("Lake", label="Big")
    place.clock.advance(minutes=1)
    assert place.registry.known("Lake") is None
    place.clock.advance(minutes=1)
    known = place.registry.known("Lake")
    assert known is not None
    assert known.label == "Big"


def test_stop_and_delete_forget_what_is_committed() -> None:
    """After STOP the default replay applies again."""
    place = Place()
    config = place.registry.create("Lake", TOPIC, at_once=True, default_replay="EARLIEST")
    first, second = place.publish(2)
    place_of_second = salesforce_ids.position_of(second)
    assert place_of_second is not None
    assert place.registry.commit(config.id, first, place_of_second) == ""
    assert place.registry.start(config) == (salesforce_ids.position_of(first), first.hex())
    place.registry.update("Lake", at_once=True, state="STOP")
    assert place.registry.commit(config.id, second, place_of_second) == "The commit failed."
    run = place.registry.update("Lake", at_once=True, state="RUN")
    assert (run.committed, place.registry.start(run)) == ("", (0, "earliest"))


def test_a_short_id_is_the_same_place() -> None:
    """A commit of 8 bytes is stored like an event's id of 10 bytes."""
    place = Place()
    config = place.registry.create("Lake", TOPIC, at_once=True)
    [replay_id] = place.publish(1)
    position = salesforce_ids.position_of(replay_id)
    assert position is not None
    assert place.registry.commit(config.id, replay_id[:8], position) == ""
    assert [one.committed for one in place.registry.all()] == [replay_id.hex()]


def test_an_invalid_commit_starts_by_the_recovery() -> None:
    """An expired or moved committed id starts with the recovery replay."""
    place = Place()
    config = place.registry.create("Lake", TOPIC, at_once=True, error_recovery_replay="EARLIEST")
    [replay_id] = place.publish(1)
    position = salesforce_ids.position_of(replay_id)
    assert position is not None
    assert place.registry.commit(config.id, replay_id, position) == ""
    place.clock.advance(hours=73)
    assert place.registry.start(config) == (0, "earliest")
    assert "retention" in place.registry.commit(config.id, replay_id, position)


def test_names_and_numbers() -> None:
    """A name is unique, also by renaming; the 201st is refused; topics are fixed."""
    place = Place(max_managed=2)
    place.registry.create("Lake", TOPIC)
    place.registry.create("Sea", TOPIC)
    with pytest.raises(ManagedRefusedError, match="its 2 managed"):
        place.registry.create("Pond", TOPIC)
    with pytest.raises(ManagedRefusedError, match="in use"):
        place.registry.update("Sea", developer_name="Lake")
    assert place.registry.update("Sea", developer_name="Pond").developer_name == "Pond"
    with pytest.raises(ManagedRefusedError, match="fixed"):
        place.registry.update("Pond", topic="/event/Other__e")
    with pytest.raises(
        ManagedRefusedError, match="no managed subscription 'Sea' in this org"
    ) as gone:
        place.registry.delete("Sea")
    assert gone.value.code == "NOT_FOUND"
    place.registry.delete("Pond")
    place.registry.create("Sea", TOPIC)


def test_the_folder_keeps_everything(tmp_path: Path) -> None:
    """Configs, committed ids, pending changes and deletions survive a restart."""
    path = tmp_path / "00D" / "managed.json"
    place = Place(path)
    lake = place.registry.create("Lake", TOPIC, at_once=True)
    gone = place.registry.create("Gone", TOPIC, at_once=True)
    place.registry.delete("Gone", at_once=True)
    new = place.registry.create("New", TOPIC)
    [replay_id] = place.publish(1)
    position = salesforce_ids.position_of(replay_id)
    assert position is not None
    place.registry.commit(lake.id, replay_id, position)
    again = ManagedRegistry(bus=place.bus, clock=place.clock, path=path)
    assert again.all() == place.registry.all()
    assert [one.committed for one in again.all()] == [replay_id.hex(), ""]
    assert (again.known("New"), again.was_deleted(gone.id)) == (None, True)
    assert again.spreads_in(new.id) == 120.0


def test_a_clock_that_was_moved_delays_nothing(tmp_path: Path) -> None:
    """After a restart without the clock's advance a change is known as soon as usual."""
    path = tmp_path / "managed.json"
    place = Place(path, managed_propagation_seconds=120)
    place.clock.advance(hours=73)
    place.registry.create("Lake", TOPIC, at_once=True)
    place.registry.create("Sea", TOPIC)
    clock = EmulatorClock(place.clock.unmoved())
    again = ManagedRegistry(bus=place.bus, clock=clock, path=path)
    assert again.known("Lake")
    assert not again.known("Sea")
    clock.advance(minutes=2)
    assert again.known("Sea")


def test_a_commit_that_cannot_be_written_fails(tmp_path: Path) -> None:
    """It is answered as a failed commit, and the committed id stays as in the file."""
    path = tmp_path / "00D" / "managed.json"
    place = Place(path)
    lake = place.registry.create("Lake", TOPIC, at_once=True)
    [replay_id] = place.publish(1)
    position = salesforce_ids.position_of(replay_id)
    assert position is not None
    path.parent.rename(tmp_path / "aside")
    path.parent.touch()
    assert place.registry.commit(lake.id, replay_id, position) == "The commit failed."
    assert [one.committed for one in place.registry.all()] == [""]


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    """A file that is no registry is refused with its name."""
    path = tmp_path / "managed.json"
    path.write_text("[{}]")
    with pytest.raises(EmulatorError, match="is not an emulator's"):
        Place(path)
