"""The first and the last year of the calendar, in tables of every format and in every reader."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.spark.current_state import ApplyOptions, land_and_apply, resolve
from tests.harness.jars import Jars, or_skip
from tests.spark.conftest import SCHEMAS
from tests.spark.lakes import Tables, by_path
from tests.spark.orgs import A, B, event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Iceberg scan planning"),  # polars prefers a plugin
]

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
BOTH = [(FIRST, date(1, 1, 1)), (LAST, date(9999, 12, 31))]
FIELDS = [
    {"name": name, "type": ["null", "long"], "doc": f"Data:{kind}", "default": None}
    for name, kind in (("At__c", "DateTime"), ("Day__c", "DateOnly"))
]
READ_AT = datetime(2026, 12, 1, tzinfo=UTC)


def millis(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def payload(moment: datetime) -> dict[str, Any]:
    return {"At__c": millis(moment), "Day__c": millis(moment)}


def by_deltalake(table: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(table).to_pyarrow_table()


def by_deltalake_and_pandas(table: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(table).to_pandas()


def by_deltalake_and_duckdb(table: Path) -> Any:
    from deltalake import DeltaTable

    return _by_duckdb("found", DeltaTable(table).to_pyarrow_dataset())


def by_polars_from_delta(table: Path) -> Any:
    import polars as pl

    return pl.read_delta(str(table)).to_arrow()


def by_pyiceberg(table: Path) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(table)).scan().to_arrow()


def by_pyiceberg_and_pandas(table: Path) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(table)).scan().to_pandas()


def by_pyiceberg_and_duckdb(table: Path) -> Any:
    return _by_duckdb("found", by_pyiceberg(table))


def by_polars_from_iceberg(table: Path) -> Any:
    import polars as pl
    from pyiceberg.table import StaticTable

    return pl.scan_iceberg(StaticTable.from_metadata(str(table))).collect().to_arrow()


def by_duckdb(table: Path) -> Any:
    return _by_duckdb(f"read_parquet('{table}/**/*.parquet', hive_partitioning = true)")


def by_polars(table: Path) -> Any:
    import polars as pl

    found = pl.scan_parquet(f"{table}/**/*.parquet", hive_partitioning=True)
    return found.collect().to_arrow()


def by_pandas(table: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(table)


def _by_duckdb(rows: str, found: Any = None) -> Any:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        if found is not None:
            connection.register("found", found)
        return connection.sql(f"select At__c, Day__c from {rows}").fetchall()  # noqa: S608


READERS: dict[str, list[Callable[[Path], Any]]] = {
    "parquet": [by_duckdb, by_polars, by_pandas],
    "delta": [
        by_deltalake,
        by_deltalake_and_pandas,
        by_deltalake_and_duckdb,
        by_polars_from_delta,
    ],
    "iceberg": [
        by_pyiceberg,
        by_pyiceberg_and_pandas,
        by_pyiceberg_and_duckdb,
        by_polars_from_iceberg,
    ],
}


def instants(found: Any) -> list[tuple[datetime, date]]:
    """Values of the two columns, whatever a reader gives them as."""
    if not isinstance(found, list):
        if not isinstance(found, pa.Table):
            found = pa.Table.from_pandas(found[["At__c", "Day__c"]])
        found = [(row["At__c"], row["Day__c"]) for row in found.to_pylist()]
    return sorted((at.astimezone(UTC), day) for at, day in found)


def of_records(tables: Tables, staging: Staging) -> list[str]:
    """Records with these values, applied from events and read from the org; names of the tables."""
    root = f"{tables.table}/records"
    staging.schemas["far_account"] = SCHEMAS["far_account"] = {
        **SCHEMAS["org_account"],
        "fields": [*SCHEMAS["org_account"]["fields"][:1], *FIELDS],
    }
    events = [
        event(staging, at, "CREATE", one, schema="far_account", **payload(moment))
        for at, (one, moment) in enumerate(((A, FIRST), (B, LAST)))
    ]
    manifest = staging.write(events, sequence=2, topic="/data/ChangeEvents", epoch="1a2b")
    order = ApplyOptions(
        manifest_url=manifest,
        current_state=root,
        table_format=tables.table_format,
        history=True,
    )
    land_and_apply(tables.spark, tables.options(manifest), order)
    text = [(one, at.isoformat(), str(day)) for one, (at, day) in zip((A, B), BOTH, strict=True)]
    read = tables.spark.createDataFrame(text, "Id string, At__c string, Day__c string")
    resolve(tables.spark, root, tables.table_format, "Account", read, read_at=READ_AT, history=True)
    return ["records/Account", "records/Account_history"]


@pytest.mark.parametrize("table_format", [*READERS])
def test_every_reader_has_the_values_that_landed(
    table_format: str, spark: Any, jars: Jars, tmp_path: Path, staging: Staging
) -> None:
    """Event tables and tables of records; and no file has timestamps in the form that few read."""
    if table_format != "parquet":
        or_skip(lambda: getattr(jars, table_format))
    # Without a space in its name: polars does not find the files of a Delta table otherwise.
    tables = by_path(table_format, spark, tmp_path / "lake")
    schema = SCHEMAS["order"]
    staging.schemas["far"] = {
        **schema,
        "name": "Far__e",
        "fields": [*schema["fields"][:2], *FIELDS],
    }
    events = [
        staging.event("far", CreatedDate=millis(moment), CreatedById="005A", **payload(moment))
        for moment in (FIRST, LAST)
    ]
    tables.land(staging.write(events))
    names = ["Far__e"]
    if table_format != "parquet":
        names += of_records(tables, staging)

    for name in names:
        for read in READERS[table_format]:
            found = read(tables.folder / name)
            assert instants(found) == BOTH, (name, read.__name__)
    files = [pq.ParquetFile(path) for path in tables.folder.rglob("*.parquet")]
    kinds = {one.schema.column(at).physical_type for one in files for at in range(len(one.schema))}
    assert "INT96" not in kinds
