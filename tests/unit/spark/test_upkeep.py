"""Rules of upkeep: reach of compaction, removable tombstones, the report, the job's options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark import maintain
from airflow_provider_sfevents.spark.upkeep.plan import (
    IcebergFiles,
    TableReport,
    ideal_files,
    megabytes,
    summary,
)
from airflow_provider_sfevents.spark.upkeep.tombstones import removable

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("parts", "files"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(1, 0)], 1),
        ([(288, 99)], 1),
        ([(288, 100)], 1),
        ([(288, 101)], 2),
        ([(288, 250), (1, 1)], 4),
    ],
)
def test_each_partition_needs_as_many_files_as_its_bytes(
    parts: list[tuple[int, int]], files: int
) -> None:
    """Each partition needs as many files as its bytes fill, and an empty one needs none."""
    assert ideal_files(parts, 100) == files


@pytest.mark.parametrize(
    ("parts", "deletes", "compaction"),
    [
        ([(1, 10), (1, 10)], 0, False),
        ([(1, 10), (1, 10)], 1, True),
        ([(2, 10), (1, 10)], 0, True),
        ([(3, 250)], 0, False),
        ([(4, 250)], 0, True),
        ([], 0, False),
    ],
)
def test_an_iceberg_table_is_compacted_where_it_has_more_files_than_it_needs(
    parts: list[tuple[int, int]], deletes: int, *, compaction: bool
) -> None:
    """Small files and position deletes are rewritten; manifests are counted apart."""
    found = IcebergFiles(
        parts=tuple(parts),
        deletes=deletes,
        manifests=3,
        manifest_bytes=201,
    )
    assert found.needs_compaction(100) is compaction
    assert found.needs_manifests(250)
    assert not found.needs_manifests(100)


def test_a_tombstone_goes_when_no_late_event_can_need_it() -> None:
    """A tombstone goes if older than 12 days and the last full snapshot, without a resync row."""
    read = {
        "Account": NOW,
        "Contact": NOW - timedelta(days=20),
        "Lead": None,
        "Case": NOW,
    }
    assert removable(read, {"Case"}, NOW) == {
        "Account": NOW - timedelta(days=12),
        "Contact": NOW - timedelta(days=20),
    }
    assert removable(read, set(), None) == {}


def test_the_log_says_what_was_done_or_would_be() -> None:
    """The log has one line for each table, of what was done or would be done."""
    many = TableReport(
        table="lake.Order__e",
        files=288,
        size=61_200_000,
        files_after=1,
        expired=1,
        removed_files=12,
        removed_size=40_000,
        tombstones=3,
    )
    assert many.text(dry_run=True) == (
        "lake.Order__e: 288 data files of 61.2 MB, would be compacted to about 1, 1 old version would be expired, "
        "12 unneeded files of 40.0 kB would be removed, 3 tombstones would be removed."
    )
    assert "288 data files of 61.2 MB, compacted to 1, 1 old version expired" in many.text(
        dry_run=False
    )
    quiet = TableReport(table="t", files=1, size=megabytes_of(1), files_after=1)
    assert quiet.text(dry_run=False) == "t: 1 data file of 1.0 MB, nothing to do."


def megabytes_of(number: int) -> int:
    assert megabytes(number * 1_000_000) == f"{number}.0 MB"
    return number * 1_000_000


def test_the_report_has_sums_and_each_table() -> None:
    """Zeros are left out of a table's own; a skipped table is named with its reason."""
    done = TableReport(table="a", files=4, size=100, files_after=1)
    skipped = TableReport(table="b", files=0, size=0, skipped="busy")
    said = summary([done, skipped], dry_run=False)
    assert (said["files"], said["files_after"], said["skipped"]) == (4, 1, ["b"])
    assert said["tables"] == {
        "a": {"files": 4, "size": 100, "files_after": 1},
        "b": {"skipped": "busy"},
    }


def test_the_command_line_is_checked_before_spark_starts() -> None:
    """Options that cannot work are refused before Spark starts."""
    table_format, about, _ = maintain.job_of(["--table", "/lake/events", "--format", "iceberg"])
    assert (table_format, about) == ("iceberg", "/lake/events")
    with pytest.raises(ConfigurationError, match="Neither table nor current_state"):
        maintain.job_of(["--format", "delta"])
