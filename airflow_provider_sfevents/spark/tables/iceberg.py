"""Iceberg tables: by path, in a hadoop catalog above the root, or by name in any catalog.

At serializable isolation a MERGE conflicts with other commits to the rows that it has read, so that
of two concurrent MERGEs one fails; two appends would both succeed. Tables are made with this
isolation as a property; a table with another isolation is refused.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.spark.tables.sessions import CATALOGS
from airflow_provider_sfevents.spark.tables.table_options import ISOLATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_SERIALIZABLE = "serializable"

PROPERTIES: Mapping[str, str] = {
    **dict.fromkeys(ISOLATIONS, _SERIALIZABLE),
    # By this column a batch's files are found; else only the first 16 letters are known of them,
    # which batches have in common.
    "write.metadata.metrics.column.batch_id": "full",
    # Each commit writes a file of metadata with all snapshots; without this every one of them
    # stays.
    "write.metadata.delete-after-commit.enabled": "true",
}
_COMMITTING = {"rest", "hive", "glue", "jdbc", "nessie"}
"""Types of catalogs whose commits do not depend on the tables' store."""


def namespace_of(root: str) -> tuple[naming.Namespace, Mapping[str, str]]:
    """Namespace of tables by path, in a hadoop catalog, and the settings of that catalog."""
    warehouse, _, last = root.rpartition("/")
    catalog = f"sfevents_{zlib.crc32(warehouse.encode()):08x}"
    made = {
        f"{CATALOGS}{catalog}": CATALOG,
        f"{CATALOGS}{catalog}.type": "hadoop",
        f"{CATALOGS}{catalog}.warehouse": warehouse or "/",
        f"{CATALOGS}{catalog}.cache-enabled": "false",
    }
    return naming.Namespace(catalog=catalog, path=(last,)), made


def require_catalog(spark: SparkSession, catalog: str) -> None:
    """Make sure that the catalog is configured, before anything is written.

    :raises ConfigurationError: it is not; the message says what to add.
    """
    if not spark.conf.get(f"{CATALOGS}{catalog}", ""):
        raise ConfigurationError(
            f"Spark knows no catalog {catalog!r}; nothing was written. Configure it: "
            f"conf={{'{CATALOGS}{catalog}': '{CATALOG}', '{CATALOGS}{catalog}.type': 'rest', "
            "'hive', 'glue' or 'hadoop', ...}, or give the tables' root URL instead of a name."
        )


def commits_itself(spark: SparkSession, catalog: str) -> bool:
    """Tell whether a catalog makes commits itself, instead of by a rename in the tables' store."""
    return str(spark.conf.get(f"{CATALOGS}{catalog}.type", "")).lower() in _COMMITTING


def check_isolation(properties: Mapping[str, str], label: str) -> None:
    """Check that a table's MERGEs are serializable.

    :raises ConfigurationError: two landings at once would not see each other.
    """
    for name in ISOLATIONS:
        if properties.get(name, _SERIALIZABLE).lower() != _SERIALIZABLE:
            raise ConfigurationError(
                f"The table {label} has {name}={properties[name]!r}, with which two landings at "
                "once could both put a batch in. Nothing was landed in it. ALTER TABLE ... SET "
                f"TBLPROPERTIES ('{name}' = '{_SERIALIZABLE}')."
            )
