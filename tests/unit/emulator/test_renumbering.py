"""A moved bus gives its events new positions and records that in its journal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.journal import open_log
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path

A, B, BOTH = "/event/A__e", "/event/B__e", "/event/Both__chn"


def _bus() -> Bus:
    return Bus(name="00D", clock=EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC)), knobs=Knobs())


def _define(bus: Bus) -> None:
    bus.define(BusTopic(name=A, kind="event", record="A__e"))
    bus.define(BusTopic(name=B, kind="event", record="B__e"))
    bus.define(BusTopic(name=BOTH, kind="channel", members=(A, B)))


def _publish(bus: Bus, topic: str, name: str) -> bytes:
    return bus.append(topic, [EncodedEvent(name, "s", name.encode())])[0]


def _names(bus: Bus, topic: str, after: int = 0) -> list[str]:
    found = bus.read(topic, after, 100)
    return [pb.FetchResponse.FromString(one.wire).events[0].event.id for one in found]


def test_order_and_channels_stay() -> None:
    """After a move each topic and channel has the same events in the same order."""
    bus = _bus()
    _define(bus)
    old = [_publish(bus, topic, f"{n}") for n, topic in enumerate([A, B, A])]
    bus.renumber(bus.position + 100, old_valid=False)
    new = [bus.replay_id(one.position) for one in bus.read(BOTH, 0, 100)]
    _publish(bus, B, "later")
    assert _names(bus, BOTH) == ["0", "1", "2", "later"]
    assert (_names(bus, A), _names(bus, B)) == (["0", "2"], ["1", "later"])
    assert min(new) > max(old)
    assert _names(bus, BOTH, bus.start(pb.CUSTOM, new[1])) == ["2", "later"]
    with pytest.raises(RefusalError, match=r"replayid\.corrupted"):
        bus.start(pb.CUSTOM, old[2])


def test_old_ids_name_other_places() -> None:
    """Earlier ids that stay valid are before or after the events of the new sequence."""
    for factor, found in ((2.0, ["1", "2"]), (0.5, [])):
        bus = _bus()
        _define(bus)
        old = [_publish(bus, A, name) for name in ("1", "2")]
        bus.renumber(int(bus.position * factor), old_valid=True)
        assert _names(bus, A, bus.start(pb.CUSTOM, old[1])) == found
        assert _names(bus, A) == ["1", "2"]


def test_the_log_brings_a_move_back(tmp_path: Path) -> None:
    """A restored bus has the new positions and the same validity of earlier ids."""
    for old_valid in (False, True):
        path = tmp_path / str(old_valid) / "bus.log"
        bus = _bus()
        log = open_log(bus, path)
        _define(bus)
        [old, _] = [_publish(bus, A, name) for name in ("1", "2")]
        bus.renumber(bus.position + 100, old_valid=old_valid)
        newest = _publish(bus, A, "3")
        log.close()
        again = _bus()
        open_log(again, path).close()
        assert again.read(A, 0, 100) == bus.read(A, 0, 100)
        assert again.start(pb.CUSTOM, newest) == bus.position
        if old_valid:
            assert _names(again, A, again.start(pb.CUSTOM, old)) == ["1", "2", "3"]
        else:
            with pytest.raises(RefusalError):
                again.start(pb.CUSTOM, old)


def test_a_place_so_many_events_before() -> None:
    """A position is counted back in events of the topic, at most all of them."""
    bus = _bus()
    _define(bus)
    for name in ("1", "2", "3", "4"):
        _publish(bus, A, name)
        _publish(bus, B, f"b{name}")
    place = bus.read(A, 0, 100)[2].position
    assert _names(bus, A, bus.before(A, place, 2)) == ["2", "3", "4"]
    assert _names(bus, A, bus.before(A, place, 99)) == ["1", "2", "3", "4"]
    assert bus.before("/event/Nowhere__e", place, 2) == place
