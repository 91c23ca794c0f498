"""Batches that land again in Parquet tables whose files another program has put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.tables.interface import Attempt
from airflow_provider_sfevents.spark.tables.parquet.foreign_files import ForeignFiles
from tests.harness.killed import Killed
from tests.spark.conftest import at
from tests.spark.lakes import land_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DATE = "Order__e/event_date=2026-11-01"
COMPACTED = f"{DATE}/compacted 0.parquet"
ALL = [(f"0f3c-{batch_number}", number) for batch_number in (1, 2, 3) for number in range(2)]


def batches(staging: Staging) -> list[str]:
    """Manifests of three batches of two events of one date."""
    return [
        staging.write(
            [staging.order(2 * batch_number + n) for n in range(2)], batch_number=batch_number
        )
        for batch_number in (1, 2, 3)
    ]


def compact(lake: Lake, into: str = COMPACTED) -> Path:
    """Put a date's files together into one, as a job against small files does."""
    files = sorted((lake.root / DATE).iterdir())
    whole = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
    for path in files:
        path.unlink()
    pq.write_table(whole, lake.root / into)
    return lake.root / into


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.rows("Order__e", "batch_id, batch_ordinal")


def batches_in(path: Path) -> set[str]:
    return set(pq.ParquetFile(path).read(["batch_id"])["batch_id"].to_pylist())


def columns_of(path: Path) -> list[tuple[str, Any]]:
    return [(field.name, field.type) for field in pq.ParquetFile(path).schema_arrow]


def test_a_batch_that_lands_again_is_there_once(spark: Any, staging: Staging, lake: Lake) -> None:
    """A batch that lands again has its rows once, although another program compacted its files."""
    manifests = batches(staging)
    for manifest in manifests:
        land_in(spark, lake, manifest)
    there = compact(lake)
    columns = columns_of(there)

    for _ in range(2):
        receipt = land_in(spark, lake, manifests[1])

        assert (receipt.events, receipt.duplicates) == (2, 0)
        assert rows(lake) == ALL
        assert batches_in(there) == {"0f3c-1", "0f3c-3"}
        assert columns_of(there) == columns

    for manifest in (manifests[0], manifests[2]):
        land_in(spark, lake, manifest)
    assert rows(lake) == ALL
    assert [path for path in lake.files() if path.startswith(DATE)] == [
        f"{DATE}/0f3c-{batch_number}-00000.parquet" for batch_number in (1, 2, 3)
    ]


def test_killed_before_the_other_programs_file_is_replaced_the_next_landing_does_it(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A kill before the other program's file is replaced is repaired by the next landing."""
    first, second, _ = batches(staging)
    with pytest.raises(Killed):
        land_in(spark, lake, first, at(steps.LANDING_LANDED, _kill))
    land_in(spark, lake, second)
    compact(lake)

    with pytest.raises(Killed):
        land_in(spark, lake, first, at(steps.LANDING_REMOVE, _kill))
    assert len(rows(lake)) == 6
    land_in(spark, lake, first)

    assert rows(lake) == ALL[:4]


def _kill() -> None:
    raise Killed


def test_a_file_that_has_the_name_of_a_batch_and_rows_of_another_is_not_replaced(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A file with the batch's name that holds rows of another batch is not replaced."""
    first, *others = batches(staging)
    for manifest in (first, *others):
        land_in(spark, lake, manifest)
    there = compact(lake, into=f"{DATE}/0f3c-1-00000.parquet")
    before = lake.files()

    with pytest.raises(NotLandedError, match=r"holds 4 rows of other batches.*another name"):
        land_in(spark, lake, first)

    assert (lake.files(), rows(lake)) == (before, ALL)
    there.rename(there.with_name("whole.parquet"))
    land_in(spark, lake, first)
    assert rows(lake) == ALL


def test_a_damaged_file_of_the_batch_is_replaced(spark: Any, staging: Staging, lake: Lake) -> None:
    """A damaged file of the batch is replaced, since it holds no rows of other batches."""
    manifest = staging.write([staging.order(n, day=n) for n in range(2)])
    land_in(spark, lake, manifest)
    (lake.root / DATE / "0f3c-1-00000.parquet").write_bytes(b"no Parquet")

    land_in(spark, lake, manifest)

    assert rows(lake) == ALL[:2]


def test_where_a_store_cannot_replace_a_file_in_one_step_the_landing_is_refused(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A landing is refused if a kill amid the replacement would lose rows of other batches."""
    for manifest in batches(staging):
        land_in(spark, lake, manifest)
    there = compact(lake)
    landed = lake.landed("0f3c-2")
    attempt = Attempt(
        folder=f"{lake.root}/_landing/0f3c-2/a",
        written={f"event_table={DATE}/staged_split=0/part-0.txt": 2},
        landed=landed,
        left_overs=True,
        before=landed.files,
        dates=landed.dates,
        is_new=False,
        schemas={},
        fence=lambda: None,
        rows_landed=lambda: None,
    )
    foreign = ForeignFiles(spark, Files(spark), str(lake.root), can_replace=False)

    with pytest.raises(
        NotLandedError, match=r"compacted 0.* 2 rows of it.*batch_id = '0f3c-2' out"
    ):
        foreign.replacements(attempt)

    assert batches_in(there) == {"0f3c-1", "0f3c-2", "0f3c-3"}
