"""Landings that continue after their batch was landed, swept or staged anew change nothing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.staging import layout
from tests.spark.conftest import at
from tests.spark.lakes import land_watched

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NEWER = "2026-11-02T06:40:00.5+00:00"


def tables_of(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {path: there for path, there in contents.items() if not path.startswith("_land")}


@pytest.mark.parametrize(
    "moment", [pytest.param("receipt", marks=pytest.mark.full), "swept", "later batches"]
)
def test_a_twin_that_wakes_up_late_changes_nothing(
    spark: Any, staging: Staging, lake: Lake, moment: str
) -> None:
    """A landing that continues after its batch was landed and swept adds no row."""
    order = LandingOptions(
        manifest_url=staging.write([staging.order(0), staging.order(1)]), table=str(lake.root)
    )
    batch = staging.batch
    after: dict[str, bytes] = {}

    def meanwhile() -> None:
        land(spark, order)
        if moment == "later batches":
            again = staging.write(
                [staging.order(1), staging.order(2)], ids=["id-1", "b"], batch_number=2
            )
            land(spark, LandingOptions(manifest_url=again, table=str(lake.root)))
        if moment != "receipt":
            shutil.rmtree(batch)
        after.update(lake.contents())

    land_watched(spark, order, at(steps.LANDING_MOVE, meanwhile))

    assert tables_of(lake.contents()) == tables_of(after)
    assert len(lake.rows("Order__e", "event_id")) == (3 if moment == "later batches" else 2)
    assert (batch / layout.RECEIPT).exists() == (moment == "receipt")


def test_a_job_that_starts_after_its_batch_was_swept_says_so(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A job that starts after its batch was swept says so and changes nothing."""
    order = LandingOptions(manifest_url=staging.write([staging.order(0)]), table=str(lake.root))
    land(spark, order)
    before = lake.files()
    shutil.rmtree(staging.batch)

    with pytest.raises(StagingError, match="There is no manifest at"):
        land(spark, order)

    assert lake.files() == before


@pytest.mark.parametrize("gone", [True, False], ids=["removed", "staged anew"])
def test_a_batch_whose_manifest_changes_while_it_is_written_does_not_land(
    spark: Any, staging: Staging, lake: Lake, gone: bool
) -> None:
    """A landing changes nothing if its batch was fetched again, here or in another staging area."""
    order = LandingOptions(manifest_url=staging.write([staging.order(0)]), table=str(lake.root))

    def change() -> None:
        if gone:
            (staging.batch / layout.MANIFEST).unlink()
        else:
            staging.write([staging.order(0)], created_at=NEWER)

    with pytest.raises(StagingError, match="was removed while" if gone else "was staged anew"):
        land_watched(spark, order, at(steps.LANDING_COMPARE, change))

    assert lake.files() == []
    assert not (staging.batch / layout.RECEIPT).exists()


def test_a_batch_staged_anew_gets_no_receipt_of_its_earlier_form(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A batch that was staged anew gets no receipt from a landing of its earlier form."""
    order = LandingOptions(manifest_url=staging.write([staging.order(0)]), table=str(lake.root))

    def change() -> None:
        staging.write([staging.order(0)], created_at=NEWER)

    with pytest.raises(StagingError, match="was staged anew"):
        land_watched(spark, order, at(steps.RECEIPT_NEXT, change))

    assert not (staging.batch / layout.RECEIPT).exists()
