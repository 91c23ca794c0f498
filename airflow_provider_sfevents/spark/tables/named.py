"""Delta and Iceberg tables by name in a catalog.

Iceberg tables by path are included, because they are in a hadoop catalog of their own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.remote import spark_errors
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables import delta, iceberg, naming
from airflow_provider_sfevents.spark.tables.sessions import namespace_exists
from airflow_provider_sfevents.spark.tables.table_options import event_properties, layout_sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.tables.naming import Namespace
    from airflow_provider_sfevents.spark.tables.table_options import TableOptions


log = logging.getLogger(__name__)

_SNAPSHOT, _NO_SNAPSHOT = "current-snapshot-id", "none"
"""Property that every Iceberg table has, and its value where the table never had a row."""


class Named:
    """Tables in a namespace.

    :param root: what receipts and messages call the namespace by; default: its name.
    :param keeps_commits: as of `interface.Dialect`; a store that renames by copying can lose a
        commit unless the catalog makes it.
    """

    inserts_conflict = False

    def __init__(
        self,
        spark: SparkSession,
        namespace: Namespace,
        using: str,
        options: TableOptions,
        root: str = "",
        *,
        keeps_commits: bool = False,
    ) -> None:
        self.keeps_commits = keeps_commits
        self._seen: dict[str, dict[str, str]] = {}
        self._spark = spark
        self._name = ".".join(map(quoted, (namespace.catalog, *namespace.path)))
        self._plain = ".".join((namespace.catalog, *namespace.path))
        self._root = root
        self._path = ".".join(map(quoted, namespace.path))
        self.catalog = quoted(namespace.catalog)
        self.using = using
        self.layout = layout_sql(using, options)
        self.properties: Mapping[str, str] = {
            **event_properties(using),
            **(iceberg.PROPERTIES if self._is_iceberg() else {}),
            **options.properties,
        }

    def ensure_namespace(self, *, make: bool) -> None:
        """Make the namespace unless it is there.

        :raises ConfigurationError: it is not, and is not to be made; or Spark has not the jar.
        """
        if namespace_exists(self._spark, self._name, self.using):
            return
        if not make:
            raise ConfigurationError(
                f"There is no namespace {self._root or self._plain}: nothing has landed in it."
            )
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._name}")

    def location(self) -> str:
        """The namespace's folder; empty if the catalog names none."""
        rows = self._spark.sql(f"DESCRIBE NAMESPACE EXTENDED {self._name}").collect()
        said = {str(row[0]): str(row[1]) for row in rows}
        location = said.get("Location", "").rstrip("/")
        # Spark's own catalog says it as a URI, Iceberg's say it as it is.
        return location if self._is_iceberg() else unquote(location)

    def label(self, table: str) -> str:
        return f"{self._root}/{table}" if self._root else f"{self._plain}.{table}"

    def url(self, table: str) -> str:
        if self._root:
            return ""
        try:
            return self._described(table).get("Location", "")
        except spark_errors() as error:
            log.info("The location of %s is not known: %s", self.label(table), error)
            return ""

    def identifier(self, table: str) -> str:
        return f"{self._name}.{quoted(table)}"

    def name_in_catalog(self, table: str) -> str:
        """A table's name in the form that its catalog's procedures take."""
        return f"{self._path}.{quoted(table)}"

    def target_size(self, table: str, name: str, usual: int) -> int:
        """Bytes that a data file of an Iceberg table may have, by a property of the table."""
        return int(self._properties(table).get(name, usual))

    def exists(self, table: str) -> bool:
        return bool(self._spark.catalog.tableExists(self.identifier(table)))

    def names(self) -> list[str]:
        rows = self._spark.sql(f"SHOW TABLES IN {self._name}").collect()
        found = [str(row["tableName"]) for row in rows if not row["isTemporary"]]
        return [name for name in found if self._is_ours(name)]

    def version(self, table: str) -> str:
        if self._is_iceberg():
            snapshot = self._properties(table).get(_SNAPSHOT, "")
            return "" if snapshot == _NO_SNAPSHOT else snapshot
        return delta.version(self._spark, self.identifier(table))

    def check_table(self, table: str) -> None:
        if not self._is_ours(table):
            raise ConfigurationError(
                f"The table {self.label(table)} is no {self.using} table. Nothing was landed in "
                "it; land in another namespace, or give its table_format."
            )
        if self._is_iceberg():
            iceberg.check_isolation(self._seen[table], self.label(table))

    def _is_iceberg(self) -> bool:
        return self.using == naming.ICEBERG

    def _is_ours(self, table: str) -> bool:
        """Tell whether a table is of this format, since a catalog may hold several formats."""
        if self._is_iceberg():
            return _SNAPSHOT in (self._seen.get(table) or self._properties(table))
        return self._described(table).get("Provider", "").lower() == self.using

    def _described(self, table: str) -> dict[str, str]:
        rows = self._spark.sql(f"DESCRIBE TABLE EXTENDED {self.identifier(table)}").collect()
        return {str(row[0]): str(row[1]) for row in rows}

    def _properties(self, table: str) -> dict[str, str]:
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self.identifier(table)}").collect()
        self._seen[table] = {str(row[0]): str(row[1]) for row in rows}
        return self._seen[table]
