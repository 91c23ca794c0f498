"""Batches that are not whole are refused, on a real Spark, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("manifest.json", "There is no manifest at"),
        ("attempts/0001/part-0000000000.parquet", "is missing; the manifest counts 2 events"),
        ("schemas/order.avsc", "schema file .* is missing"),
    ],
)
def test_a_batch_that_is_not_whole_is_refused_before_anything_is_written(
    spark: Any, staging: Staging, lake: Lake, spoil: str, said: str
) -> None:
    """An incomplete batch is refused before anything is written, with the file and the remedy."""
    manifest = staging.write([staging.order(0), staging.order(1)])
    (staging.batch / spoil).unlink()

    with pytest.raises(StagingError, match=said):
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    assert not lake.root.exists()


def test_a_staged_file_of_another_length_is_refused(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A staged file with more or fewer rows than the manifest says is refused before it lands."""
    manifest = staging.write([staging.order(0), staging.order(1)])
    text = (staging.batch / "manifest.json").read_text().replace('"events": 2', '"events": 3')
    (staging.batch / "manifest.json").write_text(text)

    with pytest.raises(StagingError, match="holds 2 events, the manifest says 3"):
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    assert not lake.root.exists()


def test_a_staged_file_that_is_no_parquet_is_refused_in_one_line(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A staged file that is truncated is refused in one line that names it."""
    manifest = staging.write([staging.order(0)])
    (staging.batch / "attempts/0001/part-0000000000.parquet").write_bytes(b"PAR1")

    with pytest.raises(StagingError, match=r"part-0000000000\.parquet: ") as caught:
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    assert "\n" not in str(caught.value)
