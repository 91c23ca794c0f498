"""Rows that a run computes once and reads often.

Few rows stay in the driver; many are written to files of the run. Most batches are small, and
nearly all the time of their apply is Spark's planning, compiling and shuffling for a handful of
rows. Rows in the driver are literals of a plan: they need no shuffle, and rows of tables are looked
up by their ids.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes.tables import RECORD_ID
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    Act = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

FEW = 1_000
"""So many events, and as many records, are few."""


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """Collect rows with instants in UTC; PySpark's own `collect` loses the time zone."""
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return found


def local_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]], columns: str) -> DataFrame:
    """Make a DataFrame of rows in the driver; instants keep their zone."""
    import pyarrow as pa

    schema = _schema(spark, columns)
    table = pa.Table.from_pylist(list(rows), _arrow(schema))
    return _frame(spark, table, schema)


def once(spark: SparkSession, rows: DataFrame, folder: str, *, few: bool) -> DataFrame:
    """Compute rows once, so that each read returns the same rows.

    :param spark: session of the tables; the result belongs to it.
    :param folder: URL for the files of many rows; the folder does not exist yet.
    """
    if few:
        return _frame(spark, rows.toArrow(), rows.schema)
    rows.write.parquet(folder)
    return spark.read.schema(rows.schema).parquet(folder)


def acted(
    spark: SparkSession, rows: DataFrame, act: Act, columns: str, folder: str, *, few: bool
) -> DataFrame:
    """Map rows on the executors, or in the driver if they are few, and keep the result.

    :param columns: of the result, as DDL; `folder` as for `once`.
    """
    import pyarrow as pa

    if not few:
        return once(spark, rows.mapInArrow(act, columns), folder, few=False)
    schema = _schema(spark, columns)
    made = act(iter(rows.toArrow().to_batches()))
    return _frame(spark, pa.Table.from_batches(made, _arrow(schema)), schema)


def with_ids(rows: DataFrame, ids: Iterable[str]) -> DataFrame:
    """Select the rows of a few records by their ids."""
    named = ", ".join(map(text, ids))
    return rows.where(f"{RECORD_ID} IN ({named})" if named else "false")


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """Union of DataFrames that have the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def _frame(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    # PySpark takes no table without a row.
    return spark.createDataFrame(table if table.num_rows else [], schema)


def _schema(spark: SparkSession, columns: str) -> StructType:
    return spark.createDataFrame([], columns).schema


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timestamp_utc=True)
