"""Settings that Delta and Iceberg need, on plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.stores.local_files import LocalFiles
from airflow_provider_sfevents.spark.tables import delta, iceberg
from airflow_provider_sfevents.spark.tables.naming import Namespace
from airflow_provider_sfevents.spark.tables.table_options import TableOptions

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.spark.files import Files


def test_delta_is_added_to_what_the_user_has_set() -> None:
    """Delta is added to the user's extensions and catalogs, once."""
    catalog = "spark.sql.catalog.spark_catalog"
    assert delta.from_the_start({}) == {
        "spark.sql.extensions": delta.EXTENSION,
        catalog: delta.CATALOG,
    }
    users = {"spark.sql.extensions": "a.B, c.D", catalog: "my.Catalog"}
    assert delta.from_the_start(users) == {
        "spark.sql.extensions": f"a.B,c.D,{delta.EXTENSION}",
        catalog: "my.Catalog",
    }
    again = delta.from_the_start(delta.from_the_start(users))
    assert again == delta.from_the_start(users)


def test_deltas_log_is_read_in_few_tasks_on_one_machine_only() -> None:
    """On a cluster Spark's number of tasks stays, and so does a user's own catalog."""
    few = "spark.databricks.delta.snapshotPartitions"
    assert delta.settings("spark_catalog", "local[2]", "")[few] == "2"
    on_cluster = delta.settings("lake", "yarn", "my.Catalog")
    assert few not in on_cluster
    assert on_cluster["spark.sql.catalog.lake"] == "my.Catalog"


def test_a_delta_table_is_there_from_its_first_commit_on(tmp_path: Path) -> None:
    """A table that another job is creating has a log folder without a commit: not a table yet."""
    tables = delta.DeltaByPath(cast("Files", LocalFiles()), str(tmp_path), TableOptions())
    log = tmp_path / "Order__e" / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.tmp").touch()

    assert not tables.exists("Order__e")
    assert tables.names() == []

    (log / "00000000000000000000.json").touch()
    assert tables.exists("Order__e")
    assert tables.names() == ["Order__e"]


def test_iceberg_by_path_is_a_catalog_at_the_folder_above() -> None:
    """Two roots in one warehouse are two namespaces of one catalog."""
    namespace, settings = iceberg.namespace_of("s3a://lake/salesforce")
    other, same = iceberg.namespace_of("s3a://lake/other")

    assert (namespace.path, other.path) == (("salesforce",), ("other",))
    assert namespace.catalog == other.catalog
    assert settings == same
    assert settings[f"spark.sql.catalog.{namespace.catalog}.warehouse"] == "s3a://lake"
    assert iceberg.namespace_of("/salesforce")[1] == {
        f"spark.sql.catalog.{iceberg.namespace_of('/salesforce')[0].catalog}{key}": value
        for key, value in {
            "": iceberg.CATALOG,
            ".type": "hadoop",
            ".warehouse": "/",
            ".cache-enabled": "false",
        }.items()
    }
    assert isinstance(namespace, Namespace)


def test_a_table_is_landed_in_at_serializable_isolation_only() -> None:
    """A table without an isolation setting is serializable; another isolation is refused."""
    iceberg.check_isolation({}, "t")
    iceberg.check_isolation({"write.merge.isolation-level": "SERIALIZABLE"}, "t")
    with pytest.raises(
        ConfigurationError, match=r"table t has write\.delete\.isolation-level='snapsh"
    ):
        iceberg.check_isolation({"write.delete.isolation-level": "snapshot"}, "t")
