"""Clustering, buckets and properties of event tables, on real Delta and Iceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.lakes import Tables, by_path, upkeep
from tests.spark.readers import READERS, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Iceberg scan planning"),  # polars prefers a plugin
]

OPTIONS: dict[str, dict[str, Any]] = {
    "delta": {
        "partition_by": "none",
        "table_properties": {"delta.logRetentionDuration": "interval 60 days"},
    },
    "iceberg": {
        "cluster_by": ("bucket(4, event_id)",),
        "table_properties": {"write.parquet.compression-codec": "gzip"},
    },
}


def made_of(tables: Tables) -> dict[str, str]:
    """Layout and a property of a table, as its format tells."""
    if tables.table_format == "delta":
        detail = tables.sql("describe detail {}").first()
        return {
            "layout": ", ".join(detail["clusteringColumns"]),
            "reader": str(detail["minReaderVersion"]),
            "property": detail["properties"]["delta.logRetentionDuration"],
        }
    said = {row[0]: row[1] for row in tables.sql("show tblproperties {}").collect()}
    parts = tables.sql("describe table extended {}").where("col_name like 'Part %'").collect()
    return {
        "layout": ", ".join(row["data_type"] for row in parts),
        "reader": said["format-version"],
        "property": said["write.parquet.compression-codec"],
    }


def test_event_tables_are_made_with_the_options_asked_for(
    table_format: str, spark: Any, staging: Staging, tmp_path: Path
) -> None:
    """A table keeps its layout through upkeep, and each reader finds each event once."""
    # polars does not open a Delta table below a folder with a space in its name.
    tables = by_path(table_format, spark, tmp_path / "lake")
    wanted = {
        "delta": {
            "layout": "event_date, batch_number",
            "reader": "1",
            "property": "interval 60 days",
        },
        "iceberg": {"layout": "event_date, bucket(4, event_id)", "reader": "2", "property": "gzip"},
    }[tables.table_format]
    manifests = [
        staging.write([staging.order(10 * n + day, day=day) for day in range(2)], batch_number=n)
        for n in (1, 2)
    ]
    for manifest in manifests:
        tables.land(manifest, **OPTIONS[tables.table_format])
    assert made_of(tables) == wanted

    upkeep(tables)
    tables.land(manifests[0], **OPTIONS[tables.table_format])

    assert made_of(tables) == wanted
    expected = [(n, day) for n in (1, 2) for day in range(2)]
    assert tables.rows("Order__e", "batch_number", "batch_ordinal") == expected
    for read in READERS[tables.table_format]:
        rows = read_rows(read, tables.folder / "Order__e", ("batch_number", "batch_ordinal"))
        assert rows == expected, read.__name__
