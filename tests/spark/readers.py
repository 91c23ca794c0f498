"""Readers of landed tables other than Spark, by format."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
        return connection.sql(f"select * from {rows}").to_arrow_table()  # noqa: S608 - our own names


READERS: dict[str, tuple[Callable[[Path], Any], ...]] = {
    "parquet": (by_duckdb, by_polars, by_pandas),
    "delta": (
        by_deltalake,
        by_deltalake_and_pandas,
        by_deltalake_and_duckdb,
        by_polars_from_delta,
    ),
    "iceberg": (
        by_pyiceberg,
        by_pyiceberg_and_pandas,
        by_pyiceberg_and_duckdb,
        by_polars_from_iceberg,
    ),
}

REFUSING_VECTORS = (by_deltalake, by_deltalake_and_pandas, by_deltalake_and_duckdb)
"""Readers that refuse a Delta table with deletion vectors."""


def read_rows(
    read: Callable[[Path], Any], table: Path, columns: tuple[str, ...]
) -> list[tuple[Any, ...]]:
    """Read some columns of a table, sorted; instants are in UTC."""
    found = read(table)
    names = list(columns)
    rows = found.select(names) if isinstance(found, pa.Table) else found[names]
    if not isinstance(rows, pa.Table):
        rows = pa.Table.from_pandas(rows)
    return sorted(tuple(map(_in_utc, (row[name] for name in names))) for row in rows.to_pylist())


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
