"""Files of an object store, by URL, through an `fsspec` file system."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.stores.object_files import ObjectFiles, local_only
from airflow_provider_sfevents.spark.stores.parquet_footers import Footer
from tests.unit.staging.bucket import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def root() -> str:
    """A folder in memory that no other test has."""
    return f"memory://lake/{uuid4().hex}"


@pytest.fixture
def files() -> ObjectFiles:
    return ObjectFiles(lambda _: MemoryFileSystem())


def test_only_one_of_two_creates_a_file(files: ObjectFiles, root: str) -> None:
    """The second one changes nothing."""
    created = [files.create(f"{root}/one", text) for text in (b"first", b"second")]
    assert created == [True, False]
    assert files.read_bytes(f"{root}/one") == b"first"


@pytest.mark.parametrize(("there", "created"), [(b"mine", True), (b"theirs", False)])
def test_a_file_whose_answer_was_lost_is_told_by_its_content(there: bytes, created: bool) -> None:
    """A repeated request that finds the object of the first one has created it."""
    store = Bucket(uuid4().hex)

    def arrive(_: object) -> None:
        store.objects["a/one"] = there
        raise FileExistsError("a/one")

    store.before = arrive
    assert ObjectFiles(lambda _: store).create("bucket://a/one", b"mine") is created


def test_a_move_replaces_a_file_and_fails_without_its_source(files: ObjectFiles, root: str) -> None:
    """An attempt whose folder was removed must not be able to move a file."""
    files.write_in_place(f"{root}/a/source", b"new")
    files.write_in_place(f"{root}/target", b"old")
    files.move(f"{root}/a/source", f"{root}/target")
    assert files.read_bytes(f"{root}/target") == b"new"
    assert not files.exists(f"{root}/a/source")
    with pytest.raises(StagingError, match=r"/target: .*The batch stays staged"):
        files.move(f"{root}/a/source", f"{root}/target")


def test_a_made_folder_is_there_without_a_file_in_it(files: ObjectFiles, root: str) -> None:
    """An attempt's folder is among the names before its first file, and goes with what it holds."""
    files.make_folder(f"{root}/attempts/one")
    files.write_in_place(f"{root}/attempts/two/part", b"")
    assert files.names(f"{root}/attempts") == ["one", "two"]
    assert (files.names(f"{root}/attempts/one"), files.names(f"{root}/none")) == ([], [])
    assert list(files.walk(f"{root}/attempts")) == ["two/part"]
    for name in ("one", "two", "three"):
        files.remove(f"{root}/attempts/{name}")
    assert files.names(f"{root}/attempts") == []


def test_only_an_empty_folder_is_removed_if_empty(files: ObjectFiles, root: str) -> None:
    """A file that is in the folder stays."""
    for name in ("a", "b"):
        files.make_folder(f"{root}/{name}")
    files.write_in_place(f"{root}/a/part", b"")
    files.remove_if_empty(f"{root}/a")
    files.remove_if_empty(f"{root}/b")
    assert files.exists(f"{root}/a/part")
    assert files.names(root) == ["a"]


def test_a_footer_tells_rows_and_the_range_of_a_column(files: ObjectFiles, root: str) -> None:
    """A missing file has no footer, and instants are whole numbers."""
    moments = [datetime(1970, 1, 1, 0, 0, 0, n, tzinfo=UTC) for n in (5, 3)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"at": pa.array(moments, pa.timestamp("us", tz="UTC"))}), sink)
    files.write_in_place(f"{root}/one", sink.getvalue().to_pybytes())
    urls = [f"{root}/one", f"{root}/none"]
    found = [files.footer(url, "at") for url in urls]
    assert found == [Footer(rows=2, low=3, high=5), None]


def test_an_error_of_the_store_names_the_url_in_one_line(root: str) -> None:
    """Each operation that the store refuses is a `StagingError` with the remedy."""

    class RefusingStore(MemoryFileSystem):  # type: ignore[misc]
        def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
            raise PermissionError(f"no\nentry to {path}")

    files = ObjectFiles(lambda _: RefusingStore())
    with pytest.raises(StagingError, match=rf"^{root}/one: no entry to .*run the task again\.$"):
        files.read_bytes(f"{root}/one")


def test_without_file_systems_only_local_disks_are_reached() -> None:
    """The error has the URL and the remedy."""
    look: Callable[[str], bool] = ObjectFiles(local_only).exists
    with pytest.raises(ConfigurationError, match=r"s3a://lake/x is not on a disk.*spark-submit"):
        look("s3a://lake/x")


def test_a_server_with_a_disk_of_its_own_is_refused(tmp_path: Path) -> None:
    """A folder that a Spark Connect server wrote, and that is not here, is an error with remedy."""
    files = Files(cast("SparkSession", object()))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "other").mkdir()
    files.check_shared(str(tmp_path))
    files.check_shared("s3a://lake/none")
    with pytest.raises(ConfigurationError, match=r"other, and what it wrote.*another disk there"):
        files.check_shared(f"file://{tmp_path}/other")
    with pytest.raises(StagingError, match=r"none was removed.*Run the task again"):
        files.check_shared(f"file://{tmp_path}/none")
