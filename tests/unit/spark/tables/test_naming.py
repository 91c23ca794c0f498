"""Values of `table`, `table_format` and `partition_by`, and their meaning."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables.naming import (
    Folder,
    Namespace,
    Place,
    check_tables,
    looks_named,
    place_of,
    renames_in_one_step,
)


@pytest.mark.parametrize(
    ("table", "table_format", "place"),
    [
        ("s3a://lake/salesforce/", "parquet", Folder(root="s3a://lake/salesforce")),
        ("lake", "parquet", Folder(root="lake")),
        ("./lake.salesforce", "parquet", Folder(root="./lake.salesforce")),
        ("/lake/salesforce", "delta", Folder(root="/lake/salesforce")),
        ("hdfs://name:8020/lake/sf", "iceberg", Folder(root="hdfs://name:8020/lake/sf")),
        ("lake.salesforce", "iceberg", Namespace(catalog="lake", path=("salesforce",))),
        ("lake.eu.salesforce", "delta", Namespace(catalog="lake", path=("eu", "salesforce"))),
        ("salesforce", "delta", Namespace(catalog="spark_catalog", path=("salesforce",))),
    ],
)
def test_what_holds_a_slash_is_a_url(table: str, table_format: str, place: Place) -> None:
    """Any other text is a name, if the format has names; without a dot in Spark's own catalog."""
    assert place_of(table, table_format) == place


@pytest.mark.parametrize(
    ("table", "table_format", "said"),
    [
        ("lake.salesforce", "parquet", r"Parquet tables are in no catalog.*'\./lake\.salesforce'"),
        ("s3a:lake", "delta", "^table='s3a:lake' is neither a URL .* nor a name in a catalog"),
        ("None", "delta", "^table='None' is what a template without a value becomes"),
        ("lake.", "iceberg", "neither a URL"),
        ("lake.sales force", "iceberg", "neither a URL"),
        ("/lake", "iceberg", None),
        ("s3a://lake", "iceberg", r"no folder above it.*'s3a://lake/salesforce'"),
    ],
)
def test_what_is_neither_is_refused_with_the_remedy(
    table: str, table_format: str, said: str | None
) -> None:
    """A bucket alone is no namespace in a warehouse; a folder at the root of a disk is one."""
    if said is None:
        assert place_of(table, table_format) == Folder(root=table)
        return
    with pytest.raises(ConfigurationError, match=said):
        place_of(table, table_format)


@pytest.mark.parametrize("character", list("[]{}*?\\"))
@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_a_path_that_spark_reads_as_a_pattern_is_refused(table_format: str, character: str) -> None:
    """Spark would read the tables of other folders that match, or find none."""
    with pytest.raises(ConfigurationError, match=r"^table=.* as a pattern.*Give a path without"):
        place_of(f"/lake/{character}/sales", table_format)


@pytest.mark.parametrize(
    ("table_format", "partition_by", "said"),
    [
        ("orc", "event_date", r"'orc' is not known; give 'parquet', 'delta' or 'iceberg'\."),
        ("parquet", "none", r"partition_by='none'.*'parquet'; give 'event_date'\."),
        ("delta", "event_month", r"'event_month'.*'delta'; give 'event_date' or 'none'\."),
        ("iceberg", "Amount__c", r"give 'event_date', 'event_month' or 'none'\."),
    ],
)
def test_formats_and_partitionings_that_are_not_there_are_refused(
    table_format: str, partition_by: str, said: str
) -> None:
    """An unknown format or partitioning is refused with the valid ones."""
    with pytest.raises(ConfigurationError, match=said):
        check_tables("/lake/salesforce", table_format, partition_by)


def test_every_partitioning_is_possible_somewhere() -> None:
    """Each partitioning is accepted for the formats that have it."""
    check_tables("/lake/salesforce", "parquet", "event_date")
    check_tables("salesforce", "delta", "none")
    check_tables("lake.salesforce", "iceberg", "event_month")


def test_stores_that_rename_by_copying_are_known() -> None:
    """Object stores do not rename in one step; other stores and a catalog's names do."""
    assert not renames_in_one_step("s3a://lake/salesforce")
    assert not renames_in_one_step("gs://lake/salesforce")
    assert renames_in_one_step("hdfs://lake/salesforce")
    assert renames_in_one_step("lake.salesforce")


def test_a_name_is_told_from_a_folder_by_its_dot() -> None:
    """A text with a dot and no slash is a name in a catalog."""
    assert [looks_named(name) for name in ("lake.shop", "lake", "./lake.shop")] == [
        True,
        False,
        False,
    ]
