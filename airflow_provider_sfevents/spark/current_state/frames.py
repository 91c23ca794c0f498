"""Rows that a run computes once and reads often.

Few rows stay in the driver; many are written to files of the run. Most batches are small, and
nearly all the time of their apply is Spark's planning, compiling and shuffling for a handful of
rows. Rows in the driver are literals of a plan: they need no shuffle, and rows of tables are looked
up by their ids.
"""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from airflow_provider_sfevents.spark.changes.tables import RECORD_ID
from airflow_provider_sfevents.spark.tables.projection import parsed
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    Act = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    Columns: TypeAlias = str | StructType
    """Columns; a text is DDL."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """Collect rows with instants in UTC; PySpark's own `collect` loses the time zone."""
    return [row for batch in rows.toArrow().to_batches() for row in rows_of(batch)]


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows of an Arrow batch, converted by column, which is much faster than by row."""
    columns = [plain_values(column) for column in batch.columns]
    names = batch.schema.names
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def plain_values(column: pa.Array) -> list[Any]:
    """Values of a column; instants in UTC."""
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_list(column.type):
        items = iter(plain_values(column.flatten()))
        lengths = column.value_lengths().to_pylist()
        return [None if one is None else list(islice(items, one)) for one in lengths]
    if column.type == pa.timestamp("us", tz="UTC"):
        micros = column.cast(pa.int64()).to_pylist()  # a fifth of the time that `to_pylist` takes
        return [None if one is None else _EPOCH + timedelta(microseconds=one) for one in micros]
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        found: list[Any] = column.to_pylist()
        return found
    names = [column.type.field(at).name for at in range(column.type.num_fields)]
    inner = [plain_values(child) for child in column.flatten()]
    there = column.is_valid().to_pylist()
    rows = zip(*inner, strict=True)
    return [
        dict(zip(names, values, strict=True)) if is_there else None
        for values, is_there in zip(rows, there, strict=True)
    ]


def local_rows(
    spark: SparkSession, rows: Sequence[Mapping[str, Any]], columns: Columns
) -> DataFrame:
    """Make a DataFrame of rows in the driver; instants keep their zone."""
    schema = _schema(columns)
    table = pa.Table.from_pylist(list(rows), _arrow(schema))
    return _frame(spark, table, schema)


def once(spark: SparkSession, rows: DataFrame, folder: str, *, few: bool) -> DataFrame:
    """Compute rows once, so that each read returns the same rows.

    :param spark: session of the tables; the result belongs to it.
    :param folder: URL for the files of many rows; the folder does not exist yet.
    """
    if few:
        return counted_here(spark, rows)[0]
    rows.write.parquet(folder)
    return spark.read.schema(rows.schema).parquet(folder)


def counted_here(spark: SparkSession, rows: DataFrame) -> tuple[DataFrame, int]:
    """Compute few rows once, and count them; they stay in the driver."""
    found = rows.toArrow()
    return _frame(spark, found, rows.schema), found.num_rows


def mapped(rows: DataFrame, act: Act, columns: Columns) -> DataFrame:
    """Map rows on the executors; `columns` as of `acted`."""
    return rows.mapInArrow(partial(_uncollected, act), columns)


def _uncollected(act: Act, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Act without Python's cyclic garbage collector, which takes a quarter of the time.

    Rows have no cycles: reference counting frees them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield from act(batches)
    finally:
        if was_enabled:
            gc.enable()


def acted(
    spark: SparkSession, rows: DataFrame, act: Act, columns: Columns, folder: str, *, few: bool
) -> DataFrame:
    """Map rows on the executors, or in the driver if they are few, and keep the result.

    :param columns: of the result; `folder` as of `once`.
    """
    if not few:
        return once(spark, mapped(rows, act, columns), folder, few=False)
    return acted_here(spark, rows.toArrow(), act, columns)


def acted_here(spark: SparkSession, rows: pa.Table, act: Act, columns: Columns) -> DataFrame:
    """Map rows in the driver; `columns` as of `acted`."""
    schema = _schema(columns)
    made = act(iter(rows.to_batches()))
    return _frame(spark, pa.Table.from_batches(made, _arrow(schema)), schema)


def read_here(files: Iterable[bytes], columns: str) -> pa.Table:
    """Read the contents of Parquet files in the driver.

    :param columns: as DDL; each file has them.
    """
    import pyarrow.parquet as pq  # executors load this module, and read no Parquet by it

    wanted = _arrow(parsed(columns))
    read = (pq.ParquetFile(pa.BufferReader(one)).read(columns=wanted.names) for one in files)
    return pa.concat_tables([wanted.empty_table(), *(one.cast(wanted) for one in read)])


def with_ids(rows: DataFrame, ids: Iterable[str]) -> DataFrame:
    """Select the rows of a few records by their ids."""
    named = ", ".join(map(text, ids))
    return rows.where(f"{RECORD_ID} IN ({named})" if named else "false")


def empty_list(item: str = "string") -> str:
    """Make the SQL of an empty list, in place of one that is null, for rows that go to Python.

    Spark's conversion of a column of null lists to Arrow takes time that grows with the square of
    a batch's rows (measured with Spark 4.1.1, where the bytes of a batch are bounded).

    :param item: type of an item.
    """
    return f"cast(array() AS array<{item}>)"


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """Union of DataFrames; columns that one of them lacks are null in its rows."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _frame(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    # PySpark takes no table without a row.
    return spark.createDataFrame(table if table.num_rows else [], schema)


def _schema(columns: Columns) -> StructType:
    return parsed(columns) if isinstance(columns, str) else columns


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timestamp_utc=True)
