"""Clustering, buckets and properties of event tables, on real Delta and Iceberg."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.jars import Jars, or_skip
from tests.spark.event_schemas import SCHEMAS
from tests.spark.lakes import Tables, by_path, upkeep
from tests.spark.orgs import A, B, CurrentState, event
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


def test_statistics_of_records_are_those_that_find_what_is_new(
    jars: Jars, spark: Any, staging: Staging, tmp_path: Path
) -> None:
    """Delta has the range of the key, of the apply's columns and of a record's times alone."""
    or_skip(lambda: jars.delta)
    staging.schemas["dated_account"] = SCHEMAS["dated_account"] = {
        **SCHEMAS["org_account"],
        "fields": [
            *SCHEMAS["org_account"]["fields"],
            {"name": "SystemModstamp", "type": ["null", "long"], "doc": "Data:DateTime"},
        ],
    }
    options = {"new_entities": "empty", "history": True}
    state = CurrentState(spark, str(tmp_path / "records"), "delta", staging, options)
    created = [
        event(staging, at, "CREATE", one, schema="dated_account", SystemModstamp=at, Industry="A")
        for at, one in enumerate((A, B))
    ]

    state.apply(state.stage(*created))

    of_apply = {"applied_generation", "applied_batch_number", "committed_at"}
    own = {"record_id", "SystemModstamp"}
    assert _ranges(tmp_path / "records" / "Account") == own | of_apply
    assert _ranges(tmp_path / "records" / "Account_history") == own | {"valid_from"}


def _ranges(table: Path) -> set[str]:
    """Columns of which a Delta table's last commit has the least value."""
    (log,) = sorted((table / "_delta_log").glob("*.json"))[-1:]
    added = [one["add"] for one in map(json.loads, log.read_text().splitlines()) if "add" in one]
    return {name for one in added for name in json.loads(one["stats"])["minValues"]}
