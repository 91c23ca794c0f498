"""Options that tables are made with."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables.table_options import (
    TableOptions,
    check_table_options,
    cluster_by_of,
    layout_sql,
    state_options,
)


@pytest.mark.parametrize(
    ("table_format", "given", "said"),
    [
        ("parquet", {"cluster_by": ("event_date",)}, "plain files.*table_format='delta'"),
        ("parquet", {"properties": {"a": "b"}}, "table_properties=.*plain files"),
        ("delta", {"cluster_by": ("event_date",)}, "Give partition_by='none'"),
        (
            "delta",
            {"cluster_by": ("Amount__c",), "partition_by": "none"},
            "'Amount__c', which not every table has; give some of event_id",
        ),
        (
            "delta",
            {
                "partition_by": "none",
                "cluster_by": ("event_id", "org_id", "batch_id", "event_date", "replay_id"),
            },
            "5 columns; Delta takes at most 4",
        ),
        ("iceberg", {"cluster_by": ("event_id",)}, r"give buckets, such as 'bucket\(16, event_id"),
        ("iceberg", {"cluster_by": ("bucket(0, event_id)",)}, "give buckets"),
        ("iceberg", {"cluster_by": ("bucket(4, Name)",)}, "'Name', which not every table has"),
        ("delta", {"properties": {"delta.enabledeletionvectors": "true"}}, "reader version"),
        ("delta", {"properties": {"delta.feature.v2Checkpoint": "supported"}}, "reader version"),
        ("iceberg", {"properties": {"format-version": "3"}}, "'format-version'.*of version 2"),
        ("iceberg", {"properties": {"write.merge.isolation-level": "snapshot"}}, "same time"),
        ("delta", {"properties": {"delta.logRetentionDuration": 60}}, "not a dict of texts"),
    ],
)
def test_an_option_that_cannot_work_is_refused(
    table_format: str, given: dict[str, Any], said: str
) -> None:
    """The error of a wrong table option names the value and the remedy."""
    with pytest.raises(ConfigurationError, match=said):
        check_table_options(table_format, TableOptions(**given))


@pytest.mark.parametrize(
    ("table_format", "given"),
    [
        ("parquet", {}),
        ("delta", {"partition_by": "none", "cluster_by": ("event_date", "event_topic")}),
        ("delta", {"cluster_by": ()}),
        ("iceberg", {"cluster_by": ("bucket(16, event_id)", "bucket( 4 ,batch_id )")}),
        ("iceberg", {"properties": {"write.parquet.compression-codec": "zstd"}}),
    ],
)
def test_an_option_that_the_format_has_is_taken(table_format: str, given: dict[str, Any]) -> None:
    """An option that the format has raises no error."""
    check_table_options(table_format, TableOptions(**given))


def test_the_layout_of_a_table_is_one_clause() -> None:
    """An unpartitioned Delta table is clustered by default, and Iceberg has buckets."""

    def layout(table_format: str, partition_by: str, cluster_by: tuple[str, ...] | None) -> str:
        return layout_sql(
            table_format, TableOptions(partition_by=partition_by, cluster_by=cluster_by)
        )

    assert layout("delta", "event_date", None) == "PARTITIONED BY (event_date)"
    assert layout("delta", "none", None) == "CLUSTER BY (event_date, batch_number)"
    assert layout("delta", "none", ("event_id",)) == "CLUSTER BY (event_id)"
    assert layout("delta", "none", ()) == ""
    assert layout("iceberg", "none", None) == ""
    buckets = ("bucket(16, event_id)",)
    assert layout("iceberg", "none", buckets) == "PARTITIONED BY (bucket(16, event_id))"
    assert (
        layout("iceberg", "event_month", buckets)
        == "PARTITIONED BY (months(event_date), bucket(16, event_id))"
    )


def test_current_state_rewrites_files_or_writes_vectors() -> None:
    """`row_changes` sets the properties of each format."""
    assert state_options("delta", "rewrite").properties == {"delta.enableDeletionVectors": "false"}
    assert state_options("delta", "vectors").properties == {"delta.enableDeletionVectors": "true"}
    assert set(state_options("iceberg", "rewrite").properties.values()) == {"copy-on-write"}
    assert set(state_options("iceberg", "vectors").properties.values()) == {"merge-on-read"}


def test_columns_to_cluster_by_are_a_list() -> None:
    """A single column may be given as text; anything but texts is refused."""
    assert cluster_by_of(None) is None
    assert cluster_by_of("event_id") == ("event_id",)
    assert cluster_by_of(["event_id"]) == ("event_id",)
    with pytest.raises(ConfigurationError, match="cluster_by=4 is no list of columns"):
        cluster_by_of(4)
