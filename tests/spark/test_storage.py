"""A landing into a store that refuses writes ends with a one-line error and no visible rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.failure import one_line
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.stores.hadoop_files import HadoopFiles
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def refused(spark: Any, staging: Staging, lake: Lake) -> str:
    """Land a batch of two tables, and return the line that says why it fails."""
    manifest = staging.write([staging.order(0), ("order", b"")])
    with pytest.raises(Exception, match=r"(?s).") as caught:
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))
    assert not (staging.batch / layout.RECEIPT).exists()
    return one_line(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        ".",
        "_landing",
        "_batches",
        "Order__e",
        pytest.param("_quarantine", marks=pytest.mark.full),
        pytest.param("Order__e/event_date=2026-11-01", marks=pytest.mark.full),
    ],
)
def test_a_file_where_a_folder_must_be(spark: Any, staging: Staging, lake: Lake, path: str) -> None:
    """The error names the folder that cannot be made, and no file of the batch can be seen."""
    (lake.root / path).parent.mkdir(parents=True, exist_ok=True)
    (lake.root / path).write_text("in the way")

    line = refused(spark, staging, lake)

    assert str(lake.root / path) in line
    assert "not a directory" in line
    assert "The batch stays staged" in line
    assert "\n" not in line
    assert lake.files() == ([] if path == "." else [path])


def test_a_file_in_the_table_that_cannot_be_compared_is_named(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """Nothing lands if a file in the table is unreadable, because its events cannot be compared."""
    foreign = "Order__e/event_date=2026-10-31/half.parquet"
    (lake.root / foreign).parent.mkdir(parents=True)
    (lake.root / foreign).write_bytes(b"PAR1")

    line = refused(spark, staging, lake)

    assert f"{lake.root}/{foreign} (" in line
    assert "move it away" in line
    assert lake.files() == [foreign]


def test_a_disk_that_is_full_is_one_line(spark: Any, staging: Staging, lake: Lake) -> None:
    """A full disk (here `/dev/full`) is a one-line error."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    lake.root.mkdir()
    (lake.root / "full").symlink_to("/dev/full")

    with pytest.raises(Exception, match="No space left on device") as caught:
        Files(spark).write_in_place(f"{lake.root}/full", b"x" * 10)

    assert "\n" not in one_line(caught.value)


@pytest.mark.parametrize("store", [Files, HadoopFiles])
def test_files_are_listed_however_many_there_are(
    spark: Any, tmp_path: Path, store: type[Files | HadoopFiles]
) -> None:
    """All files of a folder are listed, sorted and unescaped; a missing folder has none."""
    names = sorted(["a b", "ä", "x=1", "%2F", *(f"{number:04d}" for number in range(1500))])
    for name in names:
        (tmp_path / "many" / name / "inner").mkdir(parents=True)
        (tmp_path / "many" / name / "file").touch()

    files = store(spark)

    assert files.names(str(tmp_path / "many")) == names
    assert sorted(files.walk(str(tmp_path / "many"))) == [f"{name}/file" for name in names]
    assert files.names(str(tmp_path / "none")) == []
    assert list(files.walk(str(tmp_path / "none"))) == []
