"""A bus is restored from its folder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.journal import BusLog, open_log
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.state_folder import read_orgs, write_orgs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "/event/A__e"


def _opened(path: Path) -> tuple[Bus, BusLog]:
    bus = Bus(name="00D", clock=EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC)), knobs=Knobs())
    return bus, open_log(bus, path)


def _filled(path: Path) -> list[bytes]:
    """A journal with a topic, a schema, a channel, two events and a keepalive; and their ids."""
    bus, log = _opened(path)
    bus.define(BusTopic(name=TOPIC, kind="event", record="A__e", schema_id="s", can_publish=True))
    bus.define(BusTopic(name="/event/C__chn", kind="channel", members=(TOPIC,)))
    bus.add_schema("s", "{}")
    ids = bus.append(TOPIC, [EncodedEvent("1", "s", b"one"), EncodedEvent("2", "s", b"two")])
    place = bus.keepalive_position(TOPIC, bus.start(pb.CUSTOM, ids[1]))
    assert place
    ids.append(bus.replay_id(place))
    log.close()
    return ids


def test_everything_is_there_again(tmp_path: Path) -> None:
    """Topics, channels, schemas, events and issued ids survive, and new ids follow them."""
    path = tmp_path / "bus.log"
    ids = _filled(path)
    bus, log = _opened(path)
    assert [topic.name for topic in bus.topics] == [TOPIC, "/event/C__chn"]
    assert bus.schema("s") == "{}"
    assert [bus.replay_id(event.position) for event in bus.read("/event/C__chn", 0, 10)] == ids[:2]
    assert bus.start(pb.CUSTOM, ids[2]) > bus.start(pb.CUSTOM, ids[1])
    [new] = bus.append(TOPIC, [EncodedEvent("3", "s", b"three")])
    log.close()
    assert new > ids[2]


def test_half_a_record_at_the_end_is_cut_off(tmp_path: Path) -> None:
    """A torn last record is dropped, all before it is restored, and writing continues."""
    path = tmp_path / "bus.log"
    ids = _filled(path)
    whole = path.read_bytes()
    for torn in range(1, 28):  # all of the last record, the keepalive's
        path.write_bytes(whole[:-torn])
        bus, log = _opened(path)
        bus.append(TOPIC, [EncodedEvent("3", "s", b"three")])
        log.close()
        again, log = _opened(path)
        log.close()
        events = [
            pb.FetchResponse.FromString(e.wire).events[0].event.payload
            for e in again.read(TOPIC, 0, 10)
        ]
        assert events == [b"one", b"two", b"three"]
        assert again.start(pb.CUSTOM, ids[1])


def test_orgs_are_written_whole(tmp_path: Path) -> None:
    """Saved orgs are read back unchanged."""
    assert read_orgs(tmp_path) == {}
    write_orgs(tmp_path, {"orgs": [{"org_id": "00D"}]})
    assert read_orgs(tmp_path)["orgs"] == [{"org_id": "00D"}]


@pytest.mark.parametrize(
    ("content", "why"), [("rubbish", "is not an emulator's"), ('{"version": 9}', "version 9")]
)
def test_a_foreign_folder_is_refused(tmp_path: Path, content: str, why: str) -> None:
    """A file of another kind or version is named and not overwritten."""
    (tmp_path / "orgs.json").write_text(content)
    with pytest.raises(EmulatorError, match=why):
        read_orgs(tmp_path)
