"""Landing in Delta and Iceberg tables, by path and by name, on a real Spark with real jars."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, NotLandedError
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from tests.harness.jars import or_skip
from tests.spark.conftest import SOAKED_DELTA
from tests.spark.lakes import Tables, by_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.jars import Jars
    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_each_landing_is_one_commit_for_each_table(
    table_format: str, spark: Any, tmp_path: Path, staging: Staging
) -> None:
    """Each landing by name, a first or a repeated one, is one commit for each table it writes."""
    named = by_name(table_format, spark, tmp_path / "my lake")
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    orders = [staging.order(n, day=n % 2) for n in range(4)]
    manifest = staging.write([*orders, alert, ("order", b"spoilt")], per_part=3)

    receipt = named.land(manifest)

    assert named.events() == [("0f3c-1", n) for n in range(4)]
    assert named.events("Alert__e") == [("0f3c-1", 4)]
    assert named.rows("_quarantine", "batch_ordinal", "event_type") == [(5, "Order__e")]
    root = named.table if "." in named.table else f"spark_catalog.{named.table}"
    assert receipt.tables == {f"{root}.Alert__e": 1, f"{root}.Order__e": 4}
    assert (receipt.events, receipt.quarantined) == (6, 1)
    assert [named.commits(name) for name in ("Order__e", "Alert__e", "_quarantine")] == [1, 1, 1]
    assert [*named.landed()] == ["0f3c-1"]

    named.land(staging.write([staging.order(7)], batch_number=2))
    columns = ("batch_id", "batch_ordinal", "event_id", "Number__c", "Amount__c", "event_date")
    before = named.rows("Order__e", *columns)

    named.land(manifest)

    assert named.rows("Order__e", *columns) == before
    assert len(before) == 5
    assert [named.commits(name) for name in ("Order__e", "Alert__e")] == [3, 2]
    assert not named.under_way()


def test_landing_another_form_replaces_exactly_the_batchs_rows(
    tables: Tables, staging: Staging
) -> None:
    """Landing another form of a batch replaces its rows in all tables, and no other batch's."""
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    tables.land(staging.write([staging.order(7)], batch_number=11))
    first = [*(staging.order(n, day=n) for n in range(4)), alert, ("order", b"")]
    tables.land(staging.write(first, per_part=2))

    tables.land(staging.write([staging.order(n, day=9) for n in range(3)]))

    assert tables.rows("Order__e", "batch_id", "batch_ordinal", "cast(event_date as string)") == [
        *(("0f3c-1", n, "2026-11-10") for n in range(3)),
        ("0f3c-11", 0, "2026-11-01"),
    ]
    assert (tables.events("Alert__e"), tables.events("_quarantine")) == ([], [])
    assert tables.commits() == 3


def test_events_delivered_again_land_once(tables: Tables, staging: Staging) -> None:
    """Events delivered again land once: in another epoch, in the same batch, in quarantine."""
    spoilt = ("order", b"spoilt")
    events = [staging.order(1), staging.order(2), spoilt]
    tables.land(staging.write(events, ids=["a", "b", "x"]))
    again = [staging.order(2), staging.order(3), staging.order(3), spoilt]

    receipt = tables.land(staging.write(again, ids=["b", "c", "c", "x"], epoch="1a2b"))

    assert receipt.duplicates == 3
    assert tables.rows("Order__e", "event_id", "batch_id") == [
        ("a", "0f3c-1"),
        ("b", "0f3c-1"),
        ("c", "1a2b-1"),
    ]
    assert tables.events("_quarantine") == [("0f3c-1", 2)]


@pytest.mark.parametrize(
    ("table_format", "partition_by", "expected"),
    [
        ("delta", "none", []),
        ("delta", "event_date", ["event_date"]),
        ("iceberg", "event_month", ["event_date_month"]),
        ("iceberg", "none", []),
    ],
)
def test_tables_are_partitioned_as_asked(
    spark: Any,
    jars: Jars,
    tmp_path: Path,
    staging: Staging,
    table_format: str,
    partition_by: str,
    expected: list[str],
) -> None:
    """A table is partitioned as asked when it is made, and later landings keep its partitioning."""
    or_skip(lambda: jars.delta if table_format == "delta" else jars.iceberg)
    tables = Tables(spark, str(tmp_path / "lake"), table_format, tmp_path / "lake")
    tables.land(
        staging.write([staging.order(0), staging.order(1, day=40)]), partition_by=partition_by
    )

    tables.land(staging.write([staging.order(2, day=41)], batch_number=2))

    found = {
        part.partition("=")[0]
        for path in (tmp_path / "lake/Order__e").rglob("*.parquet")
        for part in path.parts
        if "=" in part
    }
    assert sorted(found) == expected
    assert len(tables.events()) == 3


@SOAKED_DELTA
def test_only_the_files_of_the_batchs_dates_are_rewritten(tables: Tables, staging: Staging) -> None:
    """Landing again leaves the data files of other dates, and of other batches, as they are."""
    tables.land(staging.write([staging.order(n, day=n) for n in range(3)], batch_number=2))
    manifest = staging.write([staging.order(9, day=1)])
    tables.land(manifest)
    before = tables.rows("Order__e", "batch_id", "input_file_name()")

    tables.land(manifest)

    after = tables.rows("Order__e", "batch_id", "input_file_name()")
    assert [row for row in after if row[0] == "0f3c-2"] == [
        row for row in before if row[0] == "0f3c-2"
    ]


def test_a_foreign_table_is_refused(tables: Tables, staging: Staging) -> None:
    """A table that lacks the landing's own columns is refused, and no row is put into it."""
    tables.sql(f"create table {{}} (a int) using {tables.table_format}")

    with pytest.raises(ConfigurationError, match="has no column batch_id and no batch_ordinal"):
        tables.land(staging.write([staging.order(1)]))

    assert tables.rows("Order__e", "a") == []


@pytest.mark.parametrize("name", ["Order__e", "_batches"])
def test_a_table_at_snapshot_isolation_is_refused(
    spark: Any, jars: Jars, tmp_path: Path, staging: Staging, name: str
) -> None:
    """A table at snapshot isolation is refused, with the statement that changes its isolation."""
    or_skip(lambda: jars.iceberg)
    tables = Tables(spark, str(tmp_path / "lake"), "iceberg", tmp_path / "lake")
    tables.land(staging.write([staging.order(1)]))
    tables.sql(
        "alter table {} set tblproperties ('write.merge.isolation-level' = 'snapshot')", name
    )

    with pytest.raises(
        ConfigurationError, match=r"'write\.merge\.isolation-level' = 'serializable'"
    ):
        tables.land(staging.write([staging.order(2)], batch_number=2))

    assert len(tables.events()) == 1


def test_too_many_bad_events_land_nothing(tables: Tables, staging: Staging) -> None:
    """A batch with too many bad events leaves no table, no ledger and no record of columns."""
    with pytest.raises(NotLandedError, match="which is all of them"):
        tables.land(staging.write([("order", b"")]))

    left = (
        [path for path in tables.folder.rglob("*") if path.is_file()]
        if tables.folder.exists()
        else []
    )
    assert left == []


def test_a_catalog_that_spark_does_not_know_is_refused(
    spark: Any, jars: Jars, staging: Staging
) -> None:
    """An unknown catalog is refused before anything is written, with the settings it needs."""
    or_skip(lambda: jars.iceberg)
    order = LandingOptions(
        manifest_url=staging.write([staging.order(1)]), table="nowhere.shop", table_format="iceberg"
    )

    with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalog\.nowhere.*SparkCatalog"):
        land(spark, order)
    with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalog\.nowhere"):
        land(spark, replace(order, table_format="delta"))
