"""Names, locations and partitions of tables, by a user's arguments.

No I/O, no Spark; used when a DAG is parsed, too.

`table` is a URL (the tables are folders below it) or the name of a namespace in a catalog (the
tables are in it). A text with a `/` is a URL. A text without one is a name for Delta and Iceberg;
for Parquet it is a folder, because Parquet tables are in no catalog.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_sfevents.exceptions import ConfigurationError

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)

JARS = {
    DELTA: "io.delta:delta-spark_4.1_2.13:4.4.0",
    ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
}
"""Maven coordinates of the formats' builds for Spark 4.1, which this package is tested with."""

EVENT_DATE, EVENT_MONTH, NOT_PARTITIONED = "event_date", "event_month", "none"
PARTITIONINGS = {
    PARQUET: (EVENT_DATE,),
    DELTA: (EVENT_DATE, NOT_PARTITIONED),
    ICEBERG: (EVENT_DATE, EVENT_MONTH, NOT_PARTITIONED),
}
"""Values of `partition_by`. A table keeps the partitioning that it was made with."""

SESSION_CATALOG = "spark_catalog"

_PART = r"[A-Za-z_][\w-]*"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
_PATTERN = re.compile(r"[][{}*?\\]")
_RENAMES_NOT = re.compile(r"(?:s3[an]?|gs|oss|cosn?)://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Tables are folders below a root URL."""

    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Tables are in a namespace of a catalog; names unquoted.

    :param path: the namespace's name and those of the namespaces it is in.
    """

    catalog: str
    path: tuple[str, ...]


Place = Folder | Namespace


def place_of(table: str, table_format: str, argument: str = "table") -> Place:
    """Parse the URL of a folder or the name of a namespace.

    :param argument: that was given, for messages.
    :raises ConfigurationError: it is neither, or not what this format can have.
    """
    if table == "None":
        raise ConfigurationError(
            f"{argument}='None' is what a template without a value becomes. Give the tables' root, "
            "such as 's3a://lake/salesforce', or a namespace, such as 'lake.salesforce'."
        )
    if table_format == PARQUET:
        if looks_named(table):
            raise ConfigurationError(
                f"{argument}={table!r} reads like a name in a catalog, and Parquet tables are in "
                f"no catalog. Give a root URL (for a folder of "
                f"this name './{table}'), or table_format='delta' or 'iceberg'."
            )
        check_no_pattern(table, argument)
        return Folder(root=table.rstrip("/"))
    if "/" in table:
        return Folder(root=_checked_root(table, table_format, argument))
    if not _NAME.fullmatch(table):
        raise ConfigurationError(
            f"{argument}={table!r} is neither a URL (it holds no '/') nor a name in a catalog "
            "(letters, digits, '_', '-', dots between). Give the tables' root, such as "
            "'s3a://lake/salesforce', or a namespace, such as 'lake.salesforce'."
        )
    catalog, dot, path = table.partition(".")
    if not dot:
        catalog, path = SESSION_CATALOG, table
    return Namespace(catalog=catalog, path=tuple(path.split(".")))


def check_tables(table: str, table_format: str, partition_by: str) -> None:
    """Check the arguments that name and cut tables, before Spark starts.

    :raises ConfigurationError: the values cannot work with any Spark.
    """
    if table_format not in FORMATS:
        raise ConfigurationError(
            f"table_format={table_format!r} is not known; give {_either(FORMATS)}."
        )
    if partition_by not in PARTITIONINGS[table_format]:
        raise ConfigurationError(
            f"partition_by={partition_by!r} is not possible with "
            f"table_format={table_format!r}; give {_either(PARTITIONINGS[table_format])}."
        )
    place_of(table, table_format)


def check_no_pattern(url: str, argument: str) -> None:
    """Refuse a URL that Spark would read as a pattern: of other folders, or of none.

    :raises ConfigurationError: it holds a character of Hadoop's patterns.
    """
    if found := _PATTERN.search(url):
        raise ConfigurationError(
            f"{argument}={url!r} holds {found.group()!r}, and Spark reads such a path as a "
            "pattern, which other folders may match. Give a path without any of [ ] { } * ? and "
            "\\."
        )


def looks_named(table: str) -> bool:
    """Tell whether a text looks like a name in a catalog rather than a folder."""
    return "." in table and bool(_NAME.fullmatch(table))


def renames_in_one_step(root: str) -> bool:
    """Tell whether the store of a URL renames: disks and HDFS do, object stores copy instead."""
    return not _RENAMES_NOT.match(root)


def _checked_root(table: str, table_format: str, argument: str) -> str:
    check_no_pattern(table, argument)
    root = table.rstrip("/")
    if table_format == ICEBERG and "/" not in root.partition("://")[2 if "://" in root else 0]:
        raise ConfigurationError(
            f"{argument}={table!r} has no folder above it. Iceberg tables by path are in a "
            f"namespace (the last folder) of a warehouse (all "
            f"before it): give one folder more, such as '{root}/salesforce'."
        )
    return root


def _either(names: tuple[str, ...]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
