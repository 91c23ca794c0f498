"""The source `sfevents`: staged batches as a table (`spark.read`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark import read_table
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.source import register

if TYPE_CHECKING:
    from tests.spark.conftest import Lake
    from tests.spark.source.conftest import Topic

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_read_equals_the_event_table(spark: Any, topic: Topic, lake: Lake) -> None:
    """The rows of decoded batches are those of the event table, column by column."""
    register(spark)
    newer = topic.event("order2", CreatedDate=0, CreatedById="005A", Number__c="new", Size__c=7)
    for number, events in enumerate([[topic.order(0), topic.order(1)], [newer]], 1):
        manifest = topic.write(events, batch_number=number)
        land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    read = spark.read.format("sfevents").option("event_type", "Order__e").load(str(topic.folder))
    landed = read_table(spark, str(lake.root), "Order__e")

    assert {row.quarantine_reason for row in read.collect()} == {None}
    decoded = read.drop("quarantine_reason", "raw_payload")
    assert decoded.dtypes == landed.dtypes
    assert sorted(decoded.collect()) == sorted(landed.collect())
