"""The source `sfevents`: staged batches as a table (`spark.read`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark import read_table
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.source import register
from airflow_provider_sfevents.staging import layout
from tests.spark.conftest import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """A topic's folder in a staging area, with characters that names bring into a path."""
    area = tmp_path / "staging area"
    area.mkdir()
    (area / layout.AREA).write_text(json.dumps({"staging_id": "a1"}))
    folder = area / layout.topic_folder("00D%x@+é", "orders", "/event/Order__e")
    return Staging(folder)


def test_a_read_equals_the_event_table(spark: Any, staging: Staging, lake: Lake) -> None:
    """The rows of decoded batches are those of the event table, column by column."""
    register(spark)
    newer = staging.event("order2", CreatedDate=0, CreatedById="005A", Number__c="new", Size__c=7)
    for number, events in enumerate([[staging.order(0), staging.order(1)], [newer]], 1):
        manifest = staging.write(events, batch_number=number)
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    read = spark.read.format("sfevents").option("event_type", "Order__e").load(str(staging.folder))
    landed = read_table(spark, str(lake.root), "Order__e")

    assert {row.quarantine_reason for row in read.collect()} == {None}
    decoded = read.drop("quarantine_reason", "raw_payload")
    assert decoded.dtypes == landed.dtypes
    assert sorted(decoded.collect()) == sorted(landed.collect())
