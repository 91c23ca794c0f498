"""Users' own jobs: reading a staged batch, saying that it landed, reading tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, NotLandedError
from airflow_provider_sfevents.spark import (
    event_types,
    read_batch,
    read_quarantine,
    read_table,
    read_undecodable,
    write_receipt,
)
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def mixed(staging: Staging) -> str:
    """A batch of two event types, one event of which is spoilt."""
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    return staging.write([staging.order(0), alert, ("order", b""), staging.order(3)])


def test_a_batch_is_read_as_it_would_land(spark: Any, staging: Staging, lake: Lake) -> None:
    """A staged batch reads with the same columns and rows that it lands with."""
    manifest = staging.write([staging.order(n) for n in range(3)])
    read = read_batch(spark, manifest)
    land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    landed = read_table(spark, str(lake.root), "Order__e")

    assert read.dtypes == landed.dtypes
    assert sorted(read.collect()) == sorted(landed.collect())


def test_of_several_event_types_one_is_named(spark: Any, mixed: str) -> None:
    """A batch of several event types needs the name of one, and the error lists them."""
    assert event_types(spark, mixed) == ["Alert__e", "Order__e"]
    assert [row.At__c for row in read_batch(spark, mixed, "Alert__e").collect()] == ["00:00:00.001"]
    with pytest.raises(
        ConfigurationError, match=r"holds the event types Alert__e, Order__e: name one"
    ):
        read_batch(spark, mixed)
    with pytest.raises(
        ConfigurationError, match=r"Alert__e, Order__e: 'Nope__e' is not among them"
    ):
        read_batch(spark, mixed, "Nope__e")


def test_what_cannot_be_decoded_is_read_apart(spark: Any, mixed: str) -> None:
    """Decoded and undecodable events, read apart, are the whole batch together."""
    bad = read_undecodable(spark, mixed).collect()

    assert [(row.batch_ordinal, bytes(row.raw_payload), row.event_type) for row in bad] == [
        (2, b"", "Order__e")
    ]
    assert read_batch(spark, mixed, "Order__e").count() == 2


def test_a_job_of_ones_own_writes_the_receipt(spark: Any, staging: Staging, mixed: str) -> None:
    """A user's own job writes a receipt that the commit of the position accepts."""
    receipt = write_receipt(spark, mixed, tables={"orders": 2, "alerts": 1}, quarantined=1)

    assert (
        Receipt.from_json((staging.batch / layout.RECEIPT).read_text(), "receipt.json") == receipt
    )
    assert receipt.writer == "sfevents tests"
    manifest = Manifest.from_json((staging.batch / layout.MANIFEST).read_text(), "manifest.json")
    assert receipt.end == manifest.end


def test_a_receipt_that_does_not_add_up_is_not_written(
    spark: Any, staging: Staging, mixed: str
) -> None:
    """A receipt with a row too few is refused, or the position would move past a lost event."""
    with pytest.raises(
        NotLandedError, match=r"has 4 events, but 3 rows, 0 quarantined and 0 duplicates"
    ):
        write_receipt(spark, mixed, tables={"orders": 3})

    assert not (staging.batch / layout.RECEIPT).exists()


def test_a_table_has_the_columns_of_all_its_files(spark: Any, staging: Staging, lake: Lake) -> None:
    """A field added between two batches is null in the earlier one."""
    newer = staging.event("order2", CreatedDate=0, CreatedById="005A", Number__c="new", Size__c=7)
    land(
        spark, LandingOptions(manifest_url=staging.write([staging.order(0)]), table=str(lake.root))
    )
    land(
        spark,
        LandingOptions(manifest_url=staging.write([newer], batch_number=2), table=f"{lake.root}/"),
    )

    rows = (
        read_table(spark, str(lake.root), "Order__e", landed_only=True)
        .orderBy("batch_number")
        .collect()
    )

    assert [(row.Number__c, row.Amount__c, row.Size__c) for row in rows] == [
        ("N0", 0.0, None),
        ("new", None, 7),
    ]


def test_quarantine_is_read_like_a_table(spark: Any, lake: Lake, mixed: str) -> None:
    """Quarantine reads like a table, with the events of all event types below a root."""
    land(spark, LandingOptions(manifest_url=mixed, table=str(lake.root)))

    assert [
        row.event_type for row in read_quarantine(spark, str(lake.root), landed_only=True).collect()
    ] == ["Order__e"]


def test_a_table_that_is_not_there_is_named_with_those_that_are(
    spark: Any, lake: Lake, mixed: str
) -> None:
    """Reading a missing table is an error that names the tables that are there."""
    land(spark, LandingOptions(manifest_url=mixed, table=str(lake.root)))

    with pytest.raises(
        ConfigurationError, match=r"has no table Account; it has: Alert__e, Order__e\."
    ):
        read_table(spark, str(lake.root), "Account")
