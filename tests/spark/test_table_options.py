"""Clustering, buckets, properties and ways to change rows, on real Delta and Iceberg; and the readers of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake.exceptions import DeltaProtocolError

from airflow_provider_sfevents.spark.upkeep.job import maintain
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from tests.spark.lakes import Tables, by_path
from tests.spark.orgs import A, B, CurrentState, event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1200),
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


def by_deltalake(table: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(table).to_pyarrow_table()


def by_deltalake_and_duckdb(table: Path) -> Any:
    import duckdb
    from deltalake import DeltaTable

    found = DeltaTable(table).to_pyarrow_dataset()
    assert found is not None
    return duckdb.sql("from found").to_arrow_table()


def by_polars_from_delta(table: Path) -> Any:
    import polars as pl

    return pl.read_delta(str(table)).to_arrow()


def by_pyiceberg(table: Path) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(table)).scan().to_arrow()


def by_pyiceberg_and_duckdb(table: Path) -> Any:
    import duckdb

    found = by_pyiceberg(table)
    assert found is not None
    return duckdb.sql("from found").to_arrow_table()


def by_polars_from_iceberg(table: Path) -> Any:
    import polars as pl
    from pyiceberg.table import StaticTable

    return pl.scan_iceberg(StaticTable.from_metadata(str(table))).collect().to_arrow()


READERS: dict[str, tuple[Callable[[Path], Any], ...]] = {
    "delta": (by_deltalake, by_deltalake_and_duckdb, by_polars_from_delta),
    "iceberg": (by_pyiceberg, by_pyiceberg_and_duckdb, by_polars_from_iceberg),
}

REFUSING_VECTORS = (by_deltalake, by_deltalake_and_duckdb)


def upkeep(tables: Tables) -> None:
    options = UpkeepOptions(
        table=tables.table, current_state="", table_format=tables.table_format, dry_run=False
    )
    maintain(tables.spark, options)


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
    """The table is laid out so before and after upkeep, an old batch lands again in it, and each reader finds each event once."""
    # polars does not open a Delta table below a folder with a space in its name.
    tables = by_path(table_format, spark, tmp_path / "lake")
    wanted = {
        "delta": {
            "layout": "event_date, batch_sequence",
            "reader": "1",
            "property": "interval 60 days",
        },
        "iceberg": {"layout": "event_date, bucket(4, event_id)", "reader": "2", "property": "gzip"},
    }[tables.table_format]
    manifests = [
        staging.write([staging.order(10 * n + day, day=day) for day in range(2)], sequence=n)
        for n in (1, 2)
    ]
    for manifest in manifests:
        tables.land(manifest, **OPTIONS[tables.table_format])
    assert made_of(tables) == wanted

    upkeep(tables)
    tables.land(manifests[0], **OPTIONS[tables.table_format])

    assert made_of(tables) == wanted
    expected = [(n, day) for n in (1, 2) for day in range(2)]
    assert tables.rows("Order__e", "batch_sequence", "batch_ordinal") == expected
    for read in READERS[tables.table_format]:
        found = read(tables.folder / "Order__e").select(["batch_sequence", "batch_ordinal"])
        rows = sorted((row["batch_sequence"], row["batch_ordinal"]) for row in found.to_pylist())
        assert rows == expected, read.__name__


@pytest.mark.parametrize("row_changes", ["rewrite", "vectors"])
def test_readers_of_records_that_changed(
    table_format: str, spark: Any, staging: Staging, tmp_path: Path, row_changes: str
) -> None:
    """Each reader finds the records as they are; a Delta table with deletion vectors is read by Spark and polars, and `deltalake` refuses it."""
    options = {"new_entities": "empty", "row_changes": row_changes}
    state = CurrentState(spark, str(tmp_path / "records"), table_format, staging, options)
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Industry="Mining"),
            event(staging, 2, "CREATE", B, Industry="Farming"),
            event(staging, 3, "CREATE", "001000000000003AAA", Industry="Fishing"),
        )
    )
    state.apply(
        state.stage(
            event(staging, 4, "UPDATE", A, Industry="Shipping"), event(staging, 5, "DELETE", B)
        )
    )
    expected = [(A, "Shipping"), ("001000000000003AAA", "Fishing")]
    records = by_path(table_format, spark, tmp_path / "records")
    assert records.rows("Account", "record_id", "Industry") == expected

    for read in READERS[table_format]:
        table = tmp_path / "records" / "Account"
        if row_changes == "vectors" and read in REFUSING_VECTORS:
            with pytest.raises(DeltaProtocolError, match="deletionVectors"):
                read(table)
            continue
        found = read(table).to_pylist()
        assert sorted((row["record_id"], row["Industry"]) for row in found) == expected, (
            read.__name__
        )
    if table_format == "iceberg":
        deletes = records.sql("table {}.delete_files", "Account").count()
        assert (deletes > 0) == (row_changes == "vectors")
        options_of_upkeep = UpkeepOptions(
            table="",
            current_state=str(tmp_path / "records"),
            table_format=table_format,
            dry_run=False,
        )
        maintain(spark, options_of_upkeep)
        assert records.sql("table {}.delete_files", "Account").count() == 0
        assert records.rows("Account", "record_id", "Industry") == expected
