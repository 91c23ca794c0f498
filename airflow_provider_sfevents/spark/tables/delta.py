"""Delta tables: by path, or by name in a catalog of Delta's class.

A MERGE that adds rows has read the dates it adds them to, and so has an INSERT that joins its own
table: of two such statements at once one fails (`ConcurrentAppendException`). Delta's `txnAppId`
and `txnVersion` are not used, because a transaction whose version is not above the last one is
skipped silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.remote import is_remote
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables import file_moves, ledger, naming
from airflow_provider_sfevents.spark.tables.sessions import CATALOGS, EXTENSIONS, extended
from airflow_provider_sfevents.spark.tables.table_options import event_properties, layout_sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.tables.table_options import TableOptions

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_FEW_PARTITIONS = {"spark.databricks.delta.snapshotPartitions": "2"}


def from_the_start(configured: Mapping[str, str]) -> dict[str, str]:
    """Settings that Spark has to be started with, because extensions cannot be added later.

    :param configured: by the user; other extensions stay, and so does another catalog in the place
        of Spark's own.
    """
    session_catalog = f"{CATALOGS}{naming.SESSION_CATALOG}"
    return {
        EXTENSIONS: extended(configured.get(EXTENSIONS, ""), EXTENSION),
        session_catalog: configured.get(session_catalog, CATALOG),
    }


def settings(catalog: str, master: str, configured: str) -> Mapping[str, str]:
    """Settings that a session needs.

    :param catalog: the one that the tables are in; for tables by path Spark's own.
    :param configured: the class that the user has set for it; it stays.
    """
    return {
        f"{CATALOGS}{naming.SESSION_CATALOG}": CATALOG,
        **({f"{CATALOGS}{catalog}": configured} if configured else {}),
        # The source is files that do not change; a copy of them costs as much as the merge.
        "spark.databricks.delta.merge.materializeSource": "none",
        # A filter for an INSERT's join, which Spark would make by a job of its own.
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        # Reading a table's log takes 50 tasks else, which on one machine is most of a landing's
        # time.
        **(_FEW_PARTITIONS if master.startswith("local") else {}),
    }


def require(spark: SparkSession) -> None:
    """Make sure that Spark was started with Delta's extension, before anything is written.

    :raises ConfigurationError: it was not; the message says what to add.
    """
    if EXTENSION not in str(spark.conf.get(EXTENSIONS, "")):
        starts = (
            "which only a start of the Spark Connect server can set"
            if is_remote(spark)
            else f"(and {CATALOGS}{naming.SESSION_CATALOG}={CATALOG}); land.py sets both, but this "
            "session was made without"
        )
        raise ConfigurationError(
            f"table_format='delta' needs Spark to be started with {EXTENSIONS}={EXTENSION} "
            f"{starts}. Nothing was written."
        )


def require_catalog(spark: SparkSession, catalog: str) -> None:
    """Check that Spark knows a catalog.

    :raises ConfigurationError: Spark knows no such catalog.
    """
    if not spark.conf.get(f"{CATALOGS}{catalog}", ""):
        raise ConfigurationError(
            f"Spark knows no catalog {catalog!r}; nothing was written. Configure it: "
            f"conf={{'{CATALOGS}{catalog}': 'its class', ...}}; or give a namespace of Spark's own "
            "catalog ('salesforce', without a dot), or the tables' root URL."
        )


class DeltaByPath:
    """Delta tables as folders below a root."""

    using = "delta"
    inserts_conflict = True

    def __init__(self, files: Files, root: str, options: TableOptions) -> None:
        self._files = files
        self._root = root
        self.layout = layout_sql(naming.DELTA, options)
        self.properties: Mapping[str, str] = {
            **event_properties(naming.DELTA),
            **options.properties,
        }
        self.keeps_commits = naming.renames_in_one_step(root)
        self._there: set[str] = set()

    def label(self, table: str) -> str:
        return f"{self._root}/{table}"

    def url(self, table: str) -> str:  # noqa: ARG002
        return ""

    def identifier(self, table: str) -> str:
        return f"delta.{quoted(self.label(table))}"

    def exists(self, table: str) -> bool:
        """Tell whether a table has a commit; Delta makes the folder of its log before."""
        if table not in self._there and self.version(table):
            self._there.add(table)
        return table in self._there

    def names(self) -> list[str]:
        found = self._files.names(self._root)
        own = {file_moves.QUARANTINE, ledger.TABLE}
        tables = [name for name in found if name in own or not name.startswith(("_", "."))]
        return [name for name in tables if self.exists(name)]

    def version(self, table: str) -> str:
        """Number of the last commit, read from a listing without a Spark job."""
        names = self._files.names(f"{self.label(table)}/_delta_log")
        commits = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        last = max((int(name) for name in commits if name.isdecimal()), default=None)
        return "" if last is None else str(last)

    def check_table(self, table: str) -> None:
        """Accept any table: even Delta's weaker isolation is enough for a MERGE."""


def version(spark: SparkSession, identifier: str) -> str:
    found = spark.sql(f"DESCRIBE HISTORY {identifier} LIMIT 1").select("version").first()
    return str(found[0]) if found else ""
