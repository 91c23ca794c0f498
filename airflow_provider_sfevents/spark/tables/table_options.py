"""Options that tables are made with: partitioning, clustering, properties.

No I/O, no Spark; checked when a DAG is parsed, too.

1. Options apply when a table is made. An existing table keeps its own.
2. `cluster_by` names envelope columns, because each table below a root has those.
3. Event tables keep Delta's reader version 1: `deltalake`, and DuckDB through it, read no deletion
   vectors. Properties that raise it, and those that landing relies on, are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables import naming

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RowChanges = Literal["rewrite", "vectors"]
ROW_CHANGES: tuple[RowChanges, ...] = get_args(RowChanges)

CLUSTERED = (envelope.EVENT_DATE, envelope.BATCH_NUMBER)
"""Columns that an unpartitioned Delta table is clustered by, unless others are given."""

_PARTITIONS = {
    naming.EVENT_DATE: "event_date",
    naming.EVENT_MONTH: "months(event_date)",
    naming.NOT_PARTITIONED: "",
}
_COLUMNS = (*envelope.ENVELOPE, envelope.EVENT_DATE)
_MOST_CLUSTERED = 4
_BUCKET = re.compile(r"bucket\(\s*([1-9]\d*)\s*,\s*(\w+)\s*\)")
ISOLATIONS = ("write.merge.isolation-level", "write.delete.isolation-level")
_VECTORS = "delta.enableDeletionVectors"
_STATISTICS = "delta.dataSkippingStatsColumns"
_CHANGES = ("write.delete.mode", "write.merge.mode", "write.update.mode")
_READERS = "it would raise the table's reader version, and deltalake could not read the table"
_REFUSED = {
    naming.DELTA: {
        _VECTORS: _READERS,
        "delta.columnMapping.mode": _READERS,
        "delta.minReaderVersion": _READERS,
        "delta.minWriterVersion": _READERS,
        "delta.checkpointPolicy": _READERS,
        "delta.enableTypeWidening": _READERS,
        "delta.appendOnly": "a batch that lands again replaces its rows",
    },
    naming.ICEBERG: {
        "format-version": (
            "tables are of version 2, which every reader of docs/how-to/read-tables.md reads"
        ),
        **dict.fromkeys(ISOLATIONS, "landings at the same time would not see each other's commits"),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options that tables are made with.

    :param partition_by: one of `naming.PARTITIONINGS`.
    :param cluster_by: Delta: columns; Iceberg: `bucket(N, column)`. None: `CLUSTERED` for an
        unpartitioned Delta table.
    :param properties: `TBLPROPERTIES` beside those that landing needs.
    """

    partition_by: str = naming.EVENT_DATE
    cluster_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def check_table_options(table_format: str, options: TableOptions) -> None:
    """Refuse options that the format does not have, or that break readers or landings.

    :raises ConfigurationError: names the option, its value and the remedy.
    """
    for name, value in (
        ("cluster_by", options.cluster_by),
        ("table_properties", options.properties),
    ):
        if value and table_format == naming.PARQUET:
            raise ConfigurationError(
                f"{name}={value!r} is not possible with table_format='parquet': Parquet "
                f"tables are plain files without a definition. Leave it "
                "out, or give table_format='delta' or 'iceberg'."
            )
    _check_properties(table_format, options.properties)
    if not options.cluster_by:
        return
    if table_format == naming.ICEBERG:
        _check_buckets(options.cluster_by)
    elif options.partition_by != naming.NOT_PARTITIONED:
        raise ConfigurationError(
            f"cluster_by={options.cluster_by!r} with partition_by={options.partition_by!r} "
            f"is not possible: Delta clusters unpartitioned "
            f"tables only. Give partition_by='{naming.NOT_PARTITIONED}', or leave cluster_by out."
        )
    else:
        _check_columns(options.cluster_by, options.cluster_by)
        if len(options.cluster_by) > _MOST_CLUSTERED:
            raise ConfigurationError(
                f"cluster_by={options.cluster_by!r} names {len(options.cluster_by)} columns; "
                f"Delta takes at most {_MOST_CLUSTERED}."
            )


def layout_sql(table_format: str, options: TableOptions) -> str:
    """Clause of `CREATE TABLE` for partitions and clusters; empty for none."""
    partition = _PARTITIONS[options.partition_by]
    if table_format == naming.ICEBERG:
        parts = [part for part in (partition, *(options.cluster_by or ())) if part]
        return f"PARTITIONED BY ({', '.join(parts)})" if parts else ""
    if partition:
        return f"PARTITIONED BY ({partition})"
    columns = CLUSTERED if options.cluster_by is None else options.cluster_by
    return f"CLUSTER BY ({', '.join(columns)})" if columns else ""


def event_properties(table_format: str) -> dict[str, str]:
    """Properties that each event table is made with."""
    return {_VECTORS: "false"} if table_format == naming.DELTA else {"format-version": "2"}


def state_options(table_format: str, row_changes: RowChanges) -> TableOptions:
    """Options of current-state tables.

    :param row_changes: `rewrite`: a commit writes each file anew in which a row changes; `vectors`:
        it writes beside the file which rows of it are gone (Delta: deletion vectors; Iceberg:
        position deletes, merge-on-read).
    """
    beside = row_changes == "vectors"
    if table_format == naming.DELTA:
        properties = {_VECTORS: str(beside).lower()}
    else:
        properties = dict.fromkeys(_CHANGES, "merge-on-read" if beside else "copy-on-write")
    return TableOptions(partition_by=naming.NOT_PARTITIONED, cluster_by=(), properties=properties)


def statistics(table_format: str, columns: Collection[str]) -> dict[str, str]:
    """Make the properties of a table that has the range of these columns alone, in each file.

    Delta has that of a table's first 32 columns else, which is a quarter of a MERGE's time.

    :param columns: names of letters, digits and `_`.
    """
    return {_STATISTICS: ",".join(columns)} if table_format == naming.DELTA and columns else {}


def cluster_by_of(given: Any) -> tuple[str, ...] | None:
    """Normalise the argument `cluster_by`; a single text is one entry.

    :raises ConfigurationError: it is no list of texts.
    """
    if given is None:
        return None
    entries = (given,) if isinstance(given, str) else given
    if not isinstance(entries, (list, tuple)) or not all(isinstance(one, str) for one in entries):
        raise ConfigurationError(
            f"cluster_by={given!r} is no list of columns; give such as ['event_date', "
            f"'batch_number']."
        )
    return tuple(entries)


def _check_properties(table_format: str, properties: Any) -> None:
    if not hasattr(properties, "items") or not all(
        isinstance(one, str) for pair in properties.items() for one in pair
    ):
        raise ConfigurationError(
            f"table_properties={properties!r} is not a dict of texts; give, for "
            f"example, {{'delta.logRetentionDuration': 'interval 60 days'}}."
        )
    refused = {name.casefold(): why for name, why in _REFUSED.get(table_format, {}).items()}
    for name in properties:
        why = refused.get(name.casefold(), "")
        if name.casefold().startswith("delta.feature."):
            why = _READERS
        if why:
            raise ConfigurationError(
                f"table_properties has {name!r}, which is not possible: {why}. Leave it out."
            )


def _check_buckets(cluster_by: Collection[str]) -> None:
    for one in cluster_by:
        found = _BUCKET.fullmatch(one)
        if found is None:
            raise ConfigurationError(
                f"cluster_by={one!r} is not possible with table_format='iceberg'; give "
                f"buckets, such as 'bucket(16, event_id)'."
            )
        _check_columns([found[2]], cluster_by)


def _check_columns(names: Collection[str], cluster_by: Collection[str]) -> None:
    for name in names:
        if name not in _COLUMNS:
            raise ConfigurationError(
                f"cluster_by={cluster_by!r} names {name!r}, which not every table has; give "
                f"some of {', '.join(_COLUMNS)}."
            )
