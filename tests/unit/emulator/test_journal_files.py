"""Journal files follow one another, and expired ones are removed without losing an event."""

from __future__ import annotations

import resource
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import pytest

from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.journal import BusLog, open_log
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError, RefusalError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Opens(Protocol):
    """Opens a journal as an emulator does at its start."""

    def __call__(self, path: Path, *, file_bytes: int = 2_000) -> Opened: ...


TOPIC, CHANNEL = "/event/A__e", "/event/C__chn"


@dataclass
class Opened:
    """A bus with its journal and a clock that only `advance` moves."""

    path: Path
    file_bytes: int = 2_000
    clock: EmulatorClock = field(
        default_factory=lambda: EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    )

    logs: list[BusLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bus = Bus(name="00D", clock=self.clock, knobs=Knobs())
        self.log: BusLog = open_log(self.bus, self.path, file_bytes=self.file_bytes)
        self.logs.append(self.log)
        self.bus.sweep()

    def again(self) -> Opened:
        self.log.close()
        return Opened(self.path, self.file_bytes, self.clock, self.logs)

    def define(self) -> None:
        self.bus.add_schema("s", "{}")
        self.bus.define(BusTopic(name=TOPIC, kind="event", record="A__e", schema_id="s"))
        self.bus.define(BusTopic(name=CHANNEL, kind="channel", members=(TOPIC,)))

    def publish(self, *names: str) -> list[bytes]:
        return self.bus.append(TOPIC, [EncodedEvent(name, "s", name.encode()) for name in names])

    def found(self, topic: str = TOPIC) -> list[str]:
        return _payloads(self.bus, topic)

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.path.parent.iterdir())


@pytest.fixture
def opens() -> Iterator[Opens]:
    """Opens journals and closes them after the test."""
    logs: list[BusLog] = []

    def opened(path: Path, *, file_bytes: int = 2_000) -> Opened:
        return Opened(path, file_bytes, logs=logs)

    yield opened
    for log in logs:
        log.close()


@contextmanager
def _full_disk(size: int = 0) -> Iterator[None]:
    """No file can grow beyond this size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def _payloads(bus: Bus, topic: str) -> list[str]:
    read = [pb.FetchResponse.FromString(one.wire) for one in bus.read(topic, 0, 10_000)]
    return [one.events[0].event.payload.decode() for one in read]


def test_weeks_of_use_take_the_room_of_three_days(tmp_path: Path, opens: Opens) -> None:
    """Expired events are neither on disk nor restored; younger ones are."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    most, hours, ids = 0, 0, [b""]
    for hours in range(0, 24 * 21, 3):
        opened.clock.advance(hours=3)
        ids = opened.publish(*(f"{hours}-{n}" for n in range(5)))
        most = max(most, sum(path.stat().st_size for path in tmp_path.iterdir()))
        if hours % 24 == 0:
            opened = opened.again()
    kept = [f"{at}-{n}" for at in range(hours - 72, hours + 1, 3) for n in range(5)]
    assert opened.found() == opened.found(CHANNEL) == kept
    assert most < 30_000  # 125 events of some 90 bytes, and heads; all of them would be 80,000
    again = opened.again()
    assert again.found() == again.found(CHANNEL) == kept
    assert again.bus.schema("s") == "{}"
    assert again.bus.start(pb.CUSTOM, ids[-1]) == again.bus.position
    again.clock.advance(hours=80)
    with pytest.raises(RefusalError, match=r"replayid\.corrupted"):
        again.bus.start(pb.CUSTOM, ids[-1])
    assert len(again.files) == 1
    [later] = again.again().publish("later")
    assert later > ids[-1]


def test_a_long_file_is_followed_by_another(tmp_path: Path, opens: Opens) -> None:
    """Files have a maximum length, and a long head does not cause a file per event."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    names = [f"{n}" for n in range(200)]
    for name in names:
        opened.publish(name)
    assert 5 < len(opened.files) < 20
    assert max((tmp_path / name).stat().st_size for name in opened.files) < 3_000
    opened.bus.add_schema("long", "x" * 10_000)
    before = len(opened.files)
    opened = opened.again()
    for name in names:
        opened.publish(name)
    assert len(opened.files) - before < 5
    assert opened.again().found() == [*names, *names]


def test_notes_stay(tmp_path: Path, opens: Opens) -> None:
    """A file's first notes summarise all earlier ones, which are not restored again."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    opened.bus.current_notes = lambda: [b"all so far"]
    for n in range(60):
        opened.bus.commit([(TOPIC, EncodedEvent("i", "s", b"p"))], f"note {n}".encode())
    notes = opened.again().bus.take_notes()
    assert notes[0] == b"all so far"
    assert notes[1:] == [f"note {n}".encode() for n in range(60)][-len(notes[1:]) :]
    assert len(notes) < 30


def test_half_of_the_next_file(tmp_path: Path, opens: Opens) -> None:
    """An unfinished next file is ignored, and the earlier files have everything."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    names = [f"{n}" for n in range(60)]
    for name in names:
        opened.publish(name)
    (tmp_path / "bus.000099.new").write_bytes((tmp_path / opened.files[0]).read_bytes()[:100])
    again = opened.again()
    assert again.found() == names
    assert "bus.000099.new" not in again.files


def test_a_file_that_was_not_removed_yet(tmp_path: Path, opens: Opens) -> None:
    """A file that expired before a kill is not restored and is removed at the next start."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    opened.publish("old")
    shutil.copy(tmp_path / "bus.log", tmp_path / "kept")
    opened.clock.advance(hours=73)
    opened.publish("new")
    assert "bus.log" not in opened.files
    shutil.move(tmp_path / "kept", tmp_path / "bus.log")
    again = opened.again()
    assert again.found() == ["new"]
    assert "bus.log" not in again.files


def test_a_move_and_what_channels_carry_outlast_the_files(tmp_path: Path, opens: Opens) -> None:
    """A move, its ids and channel copies survive across any number of files."""
    opened = opens(tmp_path / "bus.log", file_bytes=300)
    opened.define()
    [before, *_] = opened.publish(*"abcdefgh")
    opened.bus.renumber(opened.bus.position // 2, old_valid=True)
    copied = EncodedEvent("1", "s", b"plain", {CHANNEL: b"COPY"})
    for event in (copied, EncodedEvent("2", "s", b"hidden", {CHANNEL: None})):
        opened.bus.append(TOPIC, [event])
    opened.publish(*"ijklmnop")
    position = opened.bus.position
    again = opened.again()
    assert len(again.files) > 2
    assert again.found() == [*"abcdefgh", "plain", "hidden", *"ijklmnop"]
    assert again.found(CHANNEL) == [*"abcdefgh", "COPY", *"ijklmnop"]
    assert again.bus.start(pb.CUSTOM, before)
    assert again.bus.position == position
    again.clock.advance(hours=73)
    [later] = again.publish("later")
    last = again.again()
    assert (last.found(), last.found(CHANNEL)) == (["later"], ["later"])
    assert last.bus.start(pb.CUSTOM, later) == last.bus.position < position * 1.5
    with pytest.raises(RefusalError):
        last.bus.start(pb.CUSTOM, before)


def test_a_damaged_file_is_named(tmp_path: Path, opens: Opens) -> None:
    """A damaged file before the last one is refused with its name."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    for n in range(60):
        opened.publish(f"{n}")
    content = bytearray((tmp_path / "bus.log").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "bus.log").write_bytes(content)
    with pytest.raises(EmulatorError, match=r"bus\.log is damaged at byte"):
        opened.again()
    (tmp_path / "bus.log").unlink()
    rest = opened.again().found()
    assert rest == [f"{n}" for n in range(60 - len(rest), 60)]


def test_a_damaged_byte_in_the_last_file_is_no_cut_end(tmp_path: Path, opens: Opens) -> None:
    """The events behind it are not removed."""
    opened = opens(tmp_path / "bus.log", file_bytes=10**6)
    opened.define()
    opened.publish("first")
    size = (tmp_path / "bus.log").stat().st_size
    opened.publish("second")
    content = bytearray((tmp_path / "bus.log").read_bytes())
    content[size - 1] ^= 1
    (tmp_path / "bus.log").write_bytes(content)
    with pytest.raises(EmulatorError, match=r"is damaged at byte \d+ of \d+; restore it"):
        opened.again()
    assert (tmp_path / "bus.log").read_bytes() == content


def test_a_full_disk_publishes_nothing(tmp_path: Path, opens: Opens) -> None:
    """A failed write publishes nothing, leaves no half record, and later writes succeed."""
    opened = opens(tmp_path / "bus.log", file_bytes=10**6)
    opened.define()
    opened.publish("before")
    size = (tmp_path / "bus.log").stat().st_size
    message = r"cannot write to .*bus\.log: .*make room"
    with _full_disk(size + 20), pytest.raises(EmulatorError, match=message):
        opened.publish("too many")
    opened.publish("after")
    assert opened.found() == ["before", "after"]
    assert opened.again().found() == ["before", "after"]


def test_a_full_disk_defines_and_moves_nothing(tmp_path: Path, opens: Opens) -> None:
    """A definition or move that a full disk refused is not in memory, and can be repeated."""
    opened = opens(tmp_path / "bus.log")
    for _ in range(2):
        with _full_disk(), pytest.raises(EmulatorError, match="cannot write"):
            opened.bus.add_schema("s", "{}")
        with _full_disk(), pytest.raises(EmulatorError, match="cannot write"):
            opened.bus.define(BusTopic(name=TOPIC, kind="event", schema_id="s"))
    assert (opened.bus.schema("s"), opened.bus.topics) == (None, ())
    opened.define()
    [first] = opened.publish("first")
    with _full_disk(), pytest.raises(EmulatorError, match="cannot write"):
        opened.bus.renumber(1, old_valid=False)
    [second] = opened.publish("second")
    assert first < second
    again = opened.again()
    assert (again.bus.schema("s"), again.found()) == ("{}", ["first", "second"])
    assert again.bus.start(pb.CUSTOM, first) < again.bus.start(pb.CUSTOM, second)


def test_a_full_disk_is_read(tmp_path: Path, opens: Opens) -> None:
    """A bus whose next file cannot be written still delivers, and begins the file later."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    opened.publish("early")
    opened.clock.advance(hours=50)
    opened.publish("late")
    opened.clock.advance(hours=30)
    with _full_disk():
        assert opened.found() == ["late"]
    opened.clock.advance(hours=1)
    opened.publish("after")
    assert opened.again().found() == ["late", "after"]


def test_a_folder_that_was_left_is_left_alone(tmp_path: Path, opens: Opens) -> None:
    """A stopped bus hides expired events, refuses to publish, and removes no file."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    opened.publish("one")
    opened.log.close()
    opened.clock.advance(hours=80)
    assert opened.found() == []
    assert opened.files == ["bus.log"]
    with pytest.raises(EmulatorError, match="the emulator has stopped"):
        opened.publish("two")


def test_a_clock_that_was_moved(tmp_path: Path, opens: Opens) -> None:
    """After a restart the clock is not behind the newest event, and nothing expires too early."""
    opened = opens(tmp_path / "bus.log")
    opened.define()
    opened.publish("early")
    opened.clock.advance(hours=50)
    opened.publish("ahead")
    opened.clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    again = opened.again()
    again.publish("behind")
    times = [one.published_at for one in again.bus.read(TOPIC, 0, 9)]
    assert times == sorted(times)
    again.clock.advance(hours=73)
    assert again.found() == ["ahead", "behind"]
