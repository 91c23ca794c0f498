"""Files on a disk of this machine, by URL."""

from __future__ import annotations

import resource
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.stores.local_files import LocalFiles, local_path
from airflow_provider_sfevents.spark.stores.parquet_footers import Footer

FILES = LocalFiles()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/lake/a b#1", "/lake/a b#1"),
        ("file:/lake/%2F?x", "/lake/%2F?x"),
        ("file:///lake", "/lake"),
        ("file://host/lake", "/lake"),
        ("lake", None),
        ("s3a://lake/x", None),
        ("hdfs:///lake", None),
    ],
)
def test_a_path_is_taken_as_it_stands_in_the_url(url: str, path: str | None) -> None:
    """Hadoop decodes nothing in a URL, so neither does this."""
    assert local_path(url) == (path and Path(path))


def test_only_one_of_two_creates_a_file(tmp_path: Path) -> None:
    """A second creation of a file changes nothing, and leaves no temporary file."""
    url = f"file://{tmp_path}/new/one.json"
    created = [FILES.create(url, text) for text in (b"first", b"second")]
    assert created == [True, False]
    assert FILES.read_bytes(url) == b"first"
    assert FILES.names(f"{tmp_path}/new") == ["one.json"]


def test_a_file_that_cannot_be_written_is_not_created(tmp_path: Path) -> None:
    """If a write fails, no part of the file is in its place or beside it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, limits[1]))
    try:
        with pytest.raises(StagingError, match=r"one\.json: File too large"):
            FILES.create(f"{tmp_path}/one.json", b"x" * 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert FILES.names(str(tmp_path)) == []


def test_a_move_replaces_a_file_and_fails_without_its_source(tmp_path: Path) -> None:
    """An attempt whose folder was removed must not be able to move a file."""
    source, target = f"{tmp_path}/a/source", f"{tmp_path}/target"
    FILES.write_in_place(source, b"new")
    FILES.write_in_place(target, b"old")
    FILES.move(source, target)
    assert FILES.read_bytes(target) == b"new"
    with pytest.raises(StagingError, match="target: No such file"):
        FILES.move(source, target)


def test_only_an_empty_folder_is_removed_if_empty(tmp_path: Path) -> None:
    """`remove_if_empty` leaves a folder with a file; `remove` removes the folder and its files."""
    FILES.write_in_place(f"{tmp_path}/a/b", b"")
    FILES.remove_if_empty(f"{tmp_path}/a")
    assert FILES.exists(f"{tmp_path}/a/b")
    FILES.remove(f"{tmp_path}/a")
    FILES.remove(f"{tmp_path}/a")
    FILES.make_folder(f"{tmp_path}/c/d")
    FILES.remove_if_empty(f"{tmp_path}/c/d")
    assert FILES.names(str(tmp_path)) == ["c"]
    assert FILES.names(f"{tmp_path}/c") == []


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """If a file is in the place of a folder, the error is one line with its path."""
    FILES.write_in_place(f"{tmp_path}/a", b"in the way")
    for act in (FILES.make_folder, FILES.names):
        with pytest.raises(StagingError, match=f"{tmp_path}/a.* is not a directory. The batch"):
            act(f"{tmp_path}/a/b")


def test_a_path_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    """If the operating system refuses to look for a file, the error is one line with its path."""
    with pytest.raises(StagingError, match=f"{tmp_path}/nnn.*: File name too long. The batch"):
        FILES.exists(f"{tmp_path}/{'n' * 300}")


def test_a_path_that_cannot_be_written_is_named_with_the_remedy() -> None:
    """If a folder cannot be made, the error says to check the path and the user's permission."""
    with pytest.raises(StagingError, match=r"/proc/lake/x: .*Check the path, .*read and write"):
        FILES.write_in_place("/proc/lake/x", b"")


def test_a_footer_tells_rows_and_the_range_of_a_column(tmp_path: Path) -> None:
    """A missing file has no footer, a damaged one is an error, and instants are whole numbers."""
    moments = [datetime(1970, 1, 1, 0, 0, 0, n, tzinfo=UTC) for n in (5, 3)]
    table = pa.table({"name": ["a", "b"], "at": pa.array(moments, pa.timestamp("us", tz="UTC"))})
    there, missing = f"{tmp_path}/there.parquet", f"{tmp_path}/missing.parquet"
    pq.write_table(table, there, row_group_size=1)
    assert FILES.footer(there, "at") == Footer(rows=2, low=3, high=5)
    assert FILES.footer(there, "") == Footer(rows=2)
    assert FILES.footer(missing, "at") is None
    FILES.write_in_place(missing, b"damaged")
    with pytest.raises(StagingError, match=f"{missing}: .*The batch stays staged"):
        FILES.footer(missing, "")
