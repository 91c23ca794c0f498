"""Small staged files are read by one task and land as one file for each date."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.landing.staged_batch import open_batch
from airflow_provider_sfevents.spark.stores.local_files import local_path

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SIZES = (1, 3, 9, 2, 40)
"""Events of the staged files: Spark takes the largest first."""


MUCH = 2**30
"""Payload bytes of a batch whose files the tasks write, and not the driver."""


def written(staging: Staging, *, days: int = 1, spoilt: int | None = None, **manifest: Any) -> str:
    events = [staging.order(n, day=n * days // sum(SIZES)) for n in range(sum(SIZES))]
    if spoilt is not None:
        events[spoilt] = ("order", b"spoilt")
    return staging.write(events, per_part=SIZES, worth_a_task=False, **manifest)


def test_the_files_of_a_split_are_one_task_in_the_batchs_order(
    spark: Any, staging: Staging
) -> None:
    """One task reads the files of a split in the batch's order, whatever their sizes."""
    batch = open_batch(spark, Files(spark), written(staging))

    rows = batch.rows(spark, batch.manifest.schemas, batch.splits)

    assert rows.rdd.getNumPartitions() == 1
    assert [row.ordinal for row in rows.collect()] == list(range(sum(SIZES)))


@pytest.mark.parametrize("size", [1, MUCH])
def test_they_land_as_one_file_for_each_date(
    spark: Any, staging: Staging, lake: Lake, size: int
) -> None:
    """The staged files of a split land as one file for each date, by driver or by tasks."""
    manifest = written(staging, days=2, bytes=size)

    receipt = land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    files = [path for path in lake.files() if path.startswith("Order__e/")]
    assert files == [
        "Order__e/event_date=2026-11-01/0f3c-1-00000.parquet",
        "Order__e/event_date=2026-11-02/0f3c-1-00000.parquet",
    ]
    found = [pq.read_table(lake.root / path, partitioning=None) for path in files]
    ordinals = [ordinal for table in found for ordinal in table["batch_ordinal"].to_pylist()]
    assert ordinals == list(range(sum(SIZES)))
    assert sum(receipt.tables.values()) == sum(SIZES)


def test_a_damaged_staged_file_is_named(spark: Any, staging: Staging, lake: Lake) -> None:
    """A staged file whose pages cannot be read is named, and nothing lands."""
    manifest = written(staging)
    batch = open_batch(spark, Files(spark), manifest)
    url = f"{batch.folder}/{batch.manifest.parts[-1].path}"
    path = local_path(url)
    assert path is not None
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(60) + content[64:])

    with pytest.raises(StagingError, match=f"{re.escape(url)} cannot be read"):
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    assert not lake.files()


def test_a_spoilt_event_among_them_is_the_only_one_in_quarantine(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A spoilt event goes to quarantine, and the other events of its split land once."""
    manifest = written(staging, spoilt=7, bytes=MUCH)

    receipt = land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    assert lake.ordinals("_quarantine") == [7]
    assert lake.ordinals("Order__e") == [n for n in range(sum(SIZES)) if n != 7]
    assert (receipt.quarantined, sum(receipt.tables.values())) == (1, sum(SIZES) - 1)


def test_what_is_decoded_does_not_depend_on_how_files_go_together(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A batch lands by splits with the same rows as it is read by Spark's own division."""
    manifest = written(staging, days=2)
    batch = open_batch(spark, Files(spark), manifest, accelerated=True)
    (kind,) = batch.plan.types
    order = LandingOptions(manifest_url=manifest, table=str(lake.root), keep_payload=True)

    land(spark, order)

    anyhow = batch.table_rows(spark, kind.name, keep_payload=True)
    together = spark.read.parquet(str(lake.root / kind.name)).select(*anyhow.columns)
    assert together.orderBy("batch_ordinal").collect() == anyhow.orderBy("batch_ordinal").collect()
    assert together.count() == sum(SIZES)
