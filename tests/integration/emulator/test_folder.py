"""A folder in use for weeks: expired events go, records stay, acknowledged events survive kills."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import ChannelMember, Emulator
from airflow_provider_sfevents.emulator.bus.avro_schemas import schema_id
from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.journal import open_log
from airflow_provider_sfevents.emulator.bus.journal_records import whole_bodies
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PUBLISHER = """
import sys
from pathlib import Path
from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.bus.journal import open_log
from airflow_provider_sfevents.emulator.knobs import Knobs

bus = Bus(name="00D", clock=EmulatorClock(), knobs=Knobs())
log = open_log(bus, Path(sys.argv[1]), file_bytes=500)
if not bus.topics:
    bus.define(BusTopic(name="/event/A__e", kind="event", record="A__e", schema_id="s"))
while True:
    [replay_id] = bus.append("/event/A__e", [EncodedEvent("i", "s", b"p" * 40)])
    print(replay_id.hex(), flush=True)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """After SIGKILL every acknowledged event is restored, in order, across many files."""
    path, heard = tmp_path / "bus.log", []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, str(path)], stdout=subprocess.PIPE, text=True
        ) as publisher:
            assert publisher.stdout
            heard += [publisher.stdout.readline() for _ in range(300)]
            publisher.kill()
            heard += [line for line in publisher.stdout.readlines() if line.endswith("\n")]
    bus = Bus(name="00D", clock=EmulatorClock(), knobs=Knobs())
    log = open_log(bus, path)
    log.close()
    there = [bus.replay_id(one.position).hex() for one in bus.retained("/event/A__e")]
    known = set(there)
    assert [one.strip() for one in heard if one.strip() not in known] == []
    assert len(there) - len(heard) <= 2  # written, and killed before it was said
    assert there == sorted(known)
    assert len(list(tmp_path.iterdir())) > 50


def test_records_outlast_their_events(tmp_path: Path) -> None:
    """After weeks an org has its records and channels, and their events are gone from disk."""
    channel = "/data/Big__chn"
    with Emulator(folder=tmp_path) as bus:
        bus.define_object("Employee__c", {"Salary__c": "Currency"})
        kept, gone = (bus.create("Employee__c", {"Name": name, "Salary__c": 1}) for name in "ab")
        bus.delete(gone)
        members = [ChannelMember(topic="Employee__c", filter="Salary__c > 5")]
        bus.define_channel(channel, members)
        org_id = bus.org.org_id
        for _ in range(20):
            bus.clock.advance(hours=24)
            bus.update(kept, {"Salary__c": 10})
        clock = bus.clock
    names = sorted(path.name for path in (tmp_path / org_id).iterdir())
    assert "bus.log" not in names
    assert len(names) < 6
    with Emulator(folder=tmp_path, clock=clock) as bus:
        assert [one["Id"] for one in bus.records("Employee__c")] == [kept]
        bus.undelete(gone)
        new = bus.create("Employee__c", {"Name": "c", "Salary__c": 20})
        assert len({kept, gone, new}) == 3
        assert [one["Name"] for one in bus.records("Employee__c")] == ["a", "b", "c"]
        told = [one["fields"]["ChangeEventHeader"] for one in bus.events(channel, last=1)]
        assert [one["recordIds"] for one in told] == [[new]]
        assert len(bus.events("Employee__c")) <= 6


@pytest.mark.parametrize(
    "edit",
    [
        lambda bus: bus.evolve("Employee__c", {"Grade__c": "Text"}, remove=["Salary__c"]),
        lambda bus: bus.convert_field("Employee__c", "Salary__c", "Text"),
        lambda bus: bus.convert_field("Contact", "Department", "Double"),
    ],
    ids=["evolve", "convert", "convert of an unused object"],
)
def test_a_kill_leaves_no_half_change(tmp_path: Path, edit: Callable[[Emulator], object]) -> None:
    """After any of its writes a change of fields is in object, schema and records, or in none."""
    with Emulator(folder=tmp_path) as bus:
        bus.define_object("Employee__c", {"Salary__c": "Currency"})
        bus.create("Employee__c", {"Name": "a", "Salary__c": 5})
        journal = tmp_path / bus.org.org_id / "bus.log"
        before, size = bus.database.defined("Employee__c"), journal.stat().st_size
        edit(bus)
    content = journal.read_bytes()
    ends = [end for _, end in whole_bodies(content) if end >= size]
    assert ends[-1] == len(content)
    for end in ends:
        journal.write_bytes(content[:end])
        with Emulator(folder=tmp_path) as bus:
            for sobject in bus.database.objects:
                assert bus.schema_id(sobject.name) == schema_id(sobject.schema(snapshot=True))
            [record] = bus.database.records("Employee__c")
            is_changed = bus.database.defined("Employee__c") != before
            assert (record.values.get("Salary__c") is None) is is_changed
            bus.create("Employee__c", {"Name": "b"})
            bus.check()


def test_it_opens_as_it_was_left(tmp_path: Path) -> None:
    """A folder keeps the events and replay ids of its emulator.

    One of another version is refused.
    """
    with Emulator(folder=tmp_path) as bus:
        topic = bus.define_event("Order__e", {})
        [replay_id] = bus.publish(topic, [{}])
    with Emulator(folder=tmp_path) as bus:
        assert [one["replay_id"] for one in bus.events(topic)] == [replay_id.hex()]
        assert bus.org.bus.start(pb.CUSTOM, replay_id)
    orgs = tmp_path / "orgs.json"
    orgs.write_text(json.dumps({**json.loads(orgs.read_text()), "version": 3}))
    with pytest.raises(EmulatorError, match="version 3; this release reads 2"):
        Emulator(folder=tmp_path).start()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_folder_that_cannot_be(tmp_path: Path, *, tls: bool) -> None:
    """An impossible folder is named, and the ports are released."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(EmulatorError, match=f"cannot write to folder {folder}: .*; make it"):
            Emulator(folder=folder, tls=tls).start()


def test_certificates_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that takes no certificates, as on a full disk, is named."""
    (tmp_path / "server.pem").mkdir()
    message = r"certificates in .* cannot be written: .*; make room"
    with pytest.raises(EmulatorError, match=message):
        Emulator(folder=tmp_path, tls=True).start()


def test_the_second_on_a_folder_disturbs_nothing(tmp_path: Path) -> None:
    """A second emulator is refused without writing certificates of its own."""
    with Emulator(folder=tmp_path) as bus:
        topic = bus.define_event("Order__e", {})
        with pytest.raises(EmulatorError, match="in use by another emulator"):
            Emulator(folder=tmp_path, tls=True).start()
        bus.publish(topic, [{}])
        assert not (tmp_path / "ca.pem").exists()
        assert len(bus.events(topic)) == 1
