from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.sidecar_files import Origin
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.building import here, manifest, receipt

if TYPE_CHECKING:
    from upath import UPath


@pytest.fixture
def topic(place: UPath) -> TopicFolder:
    return StagingArea(place).topic("00D000000000001AAA", "orders", "/event/Order__e")


def begin(topic: TopicFolder, epoch: str, created_at: str, previous: str = "") -> None:
    topic.write_origin(Origin(epoch=epoch, previous=previous, created_at=created_at, position="{}"))


def stage(
    topic: TopicFolder,
    epoch: str,
    batch_number: int,
    *,
    landed: bool = True,
    written_at: str = "2026-01-01",
) -> None:
    batch = topic.batch(epoch, batch_number)
    batch.create_manifest(manifest(batch_number, epoch))
    if landed:
        text = receipt(batch_number, epoch, written_at).to_json()
        durable_files.replace(batch.folder / "receipt.json", text.encode())


def test_consumers_topics_and_orgs_do_not_meet(place: UPath) -> None:
    """Two consumers, topics or orgs never share a folder, whatever their names."""
    area = StagingArea(place)
    folders = [
        area.topic(org, consumer, topic).folder
        for org in ("00D1", "00D2")
        for consumer in ("a", "a/b", "a%2Fb", "..")
        for topic in ("/event/A__e", "/data/A__e")
    ]
    assert len(set(map(str, folders))) == len(folders)
    assert all(len(folder.relative_to(place).parts) == 3 for folder in folders)


def test_a_keepalive_point_is_replaced(topic: TopicFolder) -> None:
    """The keepalive point read is the one written last."""
    assert topic.read_keepalive_point() is None
    first = KeepalivePoint(
        epoch="e1", batch_number=3, replay_id="0a", seen_at="2026-01-01", after="01"
    )
    second = KeepalivePoint(
        epoch="e1", batch_number=3, replay_id="0b", seen_at="2026-01-02", after="01"
    )
    topic.write_keepalive_point(first)
    topic.write_keepalive_point(second)
    assert topic.read_keepalive_point() == second


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b'{"epoch": "e1", "batch_number": "1", "replay_id": "", "seen_at": "", "after": ""}',
        b'{"epoch": "e1", "batch_number": 1, "replay_id": "", "seen_at": ""}',
    ],
)
def test_a_damaged_keepalive_point_is_none(
    topic: TopicFolder, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged keepalive point is ignored with a warning; the position still counts."""
    durable_files.replace(topic.folder / "keepalive_point.json", content)
    assert topic.read_keepalive_point() is None
    assert "is no keepalive point" in caplog.text


def test_origins_are_in_the_order_of_their_epochs(topic: TopicFolder) -> None:
    """An epoch comes after the one that it replaced, even if its machine's clock is slow."""
    begin(topic, "zz", "2026-03-01")
    begin(topic, "mm", "2026-01-01", previous="zz")
    begin(topic, "aa", "2026-02-01", previous="mm")
    begin(topic, "zz", "2026-04-01")
    topic.write_keepalive_point(
        KeepalivePoint(epoch="aa", batch_number=0, replay_id="0a", seen_at="2026", after="01")
    )
    assert [(origin.epoch, origin.created_at) for origin in topic.origins()] == [
        ("zz", "2026-03-01"),
        ("mm", "2026-01-01"),
        ("aa", "2026-02-01"),
    ]
    assert topic.ancestors("aa") == {"zz", "mm"}
    assert topic.ancestors("zz") == topic.ancestors("unknown") == frozenset()


def test_epochs_that_follow_none_stand_by_their_time(topic: TopicFolder) -> None:
    """Epochs without a previous one are in order of time, each before those that follow it."""
    begin(topic, "bb", "2026-02-01")
    begin(topic, "b2", "2026-02-02", previous="bb")
    begin(topic, "aa", "2026-01-01", previous="not here")
    begin(topic, "a2", "2026-09-01", previous="aa")
    assert [origin.epoch for origin in topic.origins()] == ["aa", "a2", "bb", "b2"]
    assert topic.ancestors("b2") == {"bb"}


def test_a_damaged_origin_is_named(topic: TopicFolder) -> None:
    """A damaged origin is an error that names the file; the newest epoch is not guessed."""
    durable_files.replace(topic.folder / "e1" / "origin.json", b"{}")
    with pytest.raises(StagingError, match=r"e1/origin\.json is no origin"):
        topic.origins()


def test_nothing_landed_no_receipt(topic: TopicFolder) -> None:
    """A staged batch that has not landed counts as no receipt."""
    assert topic.newest_receipt() is None
    begin(topic, "e1", "2026-01-01")
    stage(topic, "e1", 1, landed=False)
    assert topic.newest_receipt() is None


def test_the_newest_receipt_of_an_epoch_has_the_highest_batch_number(topic: TopicFolder) -> None:
    """Batch number 10 comes after 9, and a batch that is only staged does not count."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in (9, 10):
        stage(topic, "e1", batch_number)
    stage(topic, "e1", 11, landed=False)
    assert topic.newest_receipt() == ("e1", 10)


def test_the_newest_epoch_counts_though_an_old_batch_was_landed_again(topic: TopicFolder) -> None:
    """A cleared old run that lands its batch again does not make its epoch the newest."""
    begin(topic, "zz", "2026-01-01")
    stage(topic, "zz", 7, written_at="2026-09-09")
    begin(topic, "aa", "2026-02-01")
    stage(topic, "aa", 1, written_at="2026-02-02")
    assert topic.newest_receipt() == ("aa", 1)


def test_an_epoch_without_origin_is_not_overlooked(topic: TopicFolder) -> None:
    """An epoch whose origin is lost is ordered by the time at which it was staged."""
    begin(topic, "e1", "2026-01-01")
    stage(topic, "e1", 1)
    stage(topic, "lost", 4, written_at="2026-05-05")
    assert topic.newest_receipt() == ("lost", 4)


def test_sweeping_keeps_the_newest_batches(topic: TopicFolder) -> None:
    """Landed batches beyond those to keep are removed whole, oldest first."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in range(1, 6):
        stage(topic, "e1", batch_number)
    assert topic.sweep(3) == ["e1-1", "e1-2"]
    assert topic.batch_numbers("e1") == [3, 4, 5]
    assert topic.sweep(3) == []
    durable_files.replace(topic.batch("e1", 6).folder / "attempts" / "0001" / "part-0", b"")
    assert topic.sweep(3) == []  # a wait has begun to stage the next batch
    assert topic.sweep(2) == ["e1-3"]


def test_a_batch_is_kept_for_a_time_after_its_landing(topic: TopicFolder) -> None:
    """Batches beyond those to keep stay until `keep_for` has passed since they landed."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in range(1, 6):
        written_at = f"2026-01-01T0{batch_number}:00:00+00:00"
        stage(topic, "e1", batch_number, written_at=written_at)
    now = datetime(2026, 1, 1, 11, 30, tzinfo=UTC)

    assert topic.sweep(1, keep_for=timedelta(hours=10), now=now) == ["e1-1"]
    assert topic.sweep(1, keep_for=timedelta(hours=10), now=now + timedelta(hours=1)) == ["e1-2"]
    assert topic.sweep(3, keep_for=timedelta(hours=1), now=now) == []
    assert topic.sweep(1) == ["e1-3", "e1-4"]


def test_a_landing_without_a_readable_time_is_kept(topic: TopicFolder) -> None:
    """A batch whose receipt has no readable time stays as long as `keep_for` is given."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in (1, 2):
        stage(topic, "e1", batch_number, written_at="yesterday")
    assert topic.sweep(1, keep_for=timedelta(days=1)) == []


def test_sweeping_is_recorded_in_the_epoch(topic: TopicFolder) -> None:
    """The highest swept number is recorded, and a later sweep of an older batch keeps it."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in range(1, 5):
        stage(topic, "e1", batch_number)
    record = topic.folder / "e1" / "swept.json"
    with topic.batch("e1", 1).take_lease(here()):
        assert topic.sweep(1) == ["e1-2", "e1-3"]
    assert durable_files.read(record) == b'{"batch_number": 3}'
    assert topic.sweep(1) == ["e1-1"]
    assert durable_files.read(record) == b'{"batch_number": 3}'


def test_sweeping_takes_the_older_epoch_first(topic: TopicFolder) -> None:
    """Batches are swept in the order in which their epochs began, not by epoch name."""
    begin(topic, "zz", "2026-01-01")
    begin(topic, "aa", "2026-02-01")
    stage(topic, "zz", 1)
    stage(topic, "aa", 1)
    assert topic.sweep(1) == ["zz-1"]


def test_what_is_needed_is_not_swept(topic: TopicFolder) -> None:
    """A sweep that keeps no batch spares leased ones, staged ones and the newest receipt."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in (1, 2, 3):
        stage(topic, "e1", batch_number)
    stage(topic, "e1", 4, landed=False)
    with topic.batch("e1", 1).take_lease(here()):
        assert topic.sweep(0) == ["e1-2"]
    assert topic.sweep(0) == ["e1-1"]


def test_what_cannot_be_removed_is_left_for_next_time(
    local_place: UPath, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that cannot be removed is logged and fails no task."""

    class ResistingBatch(BatchFolder):
        @override
        def remove(self) -> None:
            raise StagingError("it resists")

    class Resisting(TopicFolder):
        @override
        def batch(self, epoch: str, batch_number: int) -> BatchFolder:
            batch = super().batch(epoch, batch_number)
            return ResistingBatch(batch.folder, batch.batch_id)

    topic = Resisting(local_place)
    begin(topic, "e1", "2026-01-01")
    stage(topic, "e1", 1)
    stage(topic, "e1", 2)
    assert topic.sweep(1) == []
    assert "it resists" in caplog.text


def test_a_half_swept_batch_is_swept_next_time(topic: TopicFolder) -> None:
    """Files that a killed sweep left without manifest and receipt go with the next sweep."""
    begin(topic, "e1", "2026-01-01")
    for batch_number in range(1, 4):
        stage(topic, "e1", batch_number)
    left = topic.batch("e1", 1).folder / "attempts" / "0001" / "part-0"
    assert topic.sweep(2) == ["e1-1"]
    durable_files.replace(left, b"")
    assert topic.sweep(2) == ["e1-1"]
    assert topic.batch_numbers("e1") == [2, 3]


def test_a_negative_number_to_keep_is_refused(topic: TopicFolder) -> None:
    """A negative `keep_batches` is an error that names the value."""
    with pytest.raises(ValueError, match="keep_batches must be 0 or more, not -1"):
        topic.sweep(-1)


def test_what_was_forgotten_no_longer_counts(topic: TopicFolder) -> None:
    """Epochs known at a forgetting no longer count, later ones do, whatever the clocks say."""
    begin(topic, "e1", "2026-01-01")
    assert topic.forgotten() is None
    assert topic.after_forgetting("e1")
    topic.forget("2026-02-01T00:00:00+00:00", "elsewhere", "2026-01-31")
    begin(topic, "e2", "2025-03-01", previous="elsewhere")
    forgotten = topic.forgotten()
    assert forgotten is not None
    assert (forgotten.at[:10], forgotten.epochs) == ("2026-02-01", ["e1", "elsewhere"])
    assert forgotten.last_event_at == "2026-01-31"
    counting = [topic.after_forgetting(epoch) for epoch in ("e1", "elsewhere", "e2")]
    assert counting == [False, False, True]
    topic.forget("2026-04-01T00:00:00+00:00", "e2")
    again = topic.forgotten()
    assert again is not None
    assert again.id != forgotten.id
    assert again.epochs[-1] == "e2"
    assert set(again.epochs) == {"e1", "elsewhere", "e2"}


def test_a_staging_area_has_an_id_of_its_own(place: UPath) -> None:
    """A staging area keeps its id, and an emptied area gets a new one."""
    area = StagingArea(place)
    first = area.staging_id()
    assert (first, StagingArea(place).staging_id()) == (first, first)
    durable_files.remove(place / "_area.json")
    assert area.staging_id() not in ("", first)
    durable_files.replace(place / "_area.json", b"{}")
    with pytest.raises(StagingError, match=r"_area\.json holds no id .* Remove it"):
        area.staging_id()
    assert area.known_id() == ""


def test_the_epoch_of_the_position_is_the_newest(topic: TopicFolder) -> None:
    """The position's epoch is never swept, even if another machine's clock makes it look old."""
    begin(topic, "now", "2025-01-01")
    durable_files.replace(topic.batch("now", 1).folder / "attempts" / "0001" / "part-0", b"")
    begin(topic, "before", "2026-01-01")
    stage(topic, "before", 1)
    assert topic.sweep(0, "now") == []
    assert topic.batch_numbers("now") == [1]


def test_a_damaged_mark_is_named(topic: TopicFolder) -> None:
    """A damaged record of a forgetting is an error that names the command to write it again."""
    durable_files.replace(topic.folder / "forgotten.json", b"{}")
    with pytest.raises(StagingError, match=r"forgotten\.json does not say .* position forget"):
        topic.forgotten()


def test_reading_an_area_needs_no_arrow() -> None:
    """Importing the staging area does not import Arrow, because Airflow parses DAGs often."""
    code = "import sys, airflow_provider_sfevents.staging.area; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_epoch_whose_origin_is_gone_is_put_where_it_belongs(topic: TopicFolder) -> None:
    """An epoch without an origin goes by its first batch, and is the newest if it has none."""
    begin(topic, "old", "2025-12-01")
    stage(topic, "old", 1)
    stage(topic, "lost", 1)  # staged at 2026-01-01
    begin(topic, "new", "2026-02-01")
    stage(topic, "new", 1)
    durable_files.replace(topic.batch("newest", 1).folder / "attempts" / "0001" / "part-0", b"")
    assert topic.epochs_in_order() == ["old", "lost", "new", "newest"]
    durable_files.replace(topic.folder / "notes.txt", b"no epoch at all")
    topic.sweep(0)
    assert topic.batch_numbers("newest") == [1]


def test_unfinished_files_of_dead_writers_are_swept(local_place: UPath) -> None:
    """Unfinished files beside the batches are swept once their writers are long gone."""
    topic = TopicFolder(local_place)
    begin(topic, "e1", "2026-01-01")
    for name in (
        ".keepalive_point.json.ab.tmp",
        "e1/.origin.json.ab.tmp",
        "e1/history/.0000000001.jsonl.ab.tmp",
        ".keepalive_point.json.cd.tmp",
    ):
        durable_files.replace(topic.folder / name, b"")
        if "ab" in name:
            os.utime(durable_files.local_path(topic.folder / name), (0, 0))
    topic.sweep()
    assert durable_files.names(topic.folder) == [".keepalive_point.json.cd.tmp", "e1"]
    assert durable_files.names(topic.folder / "e1") == ["history", "origin.json"]
    assert durable_files.names(topic.folder / "e1" / "history") == []
