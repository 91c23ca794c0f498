"""Columns as SQL, cast to the wanted type or null if the table has no such column.

A statement in SQL costs a few calls to Java for any number of columns; a column that is built from
Python objects costs several calls by itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables.statements import ddl, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType


@lru_cache(maxsize=64)
def parsed(columns: str) -> StructType:
    """Read columns that are given as DDL; Spark has to be running."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(columns)


def parquet_files(spark: SparkSession, columns: StructType | str, urls: Sequence[str]) -> DataFrame:
    """Read Parquet files, or folders of them, with the columns that they are known to have."""
    reader = spark.read.format("parquet").schema(columns)
    return reader.load(urls[0] if len(urls) == 1 else list(urls))


def rows_by_table(
    spark: SparkSession, columns: str, folders: Sequence[str], name: str, depth: int
) -> DataFrame:
    """Read Parquet files of many tables in one scan, with the table's name as a further column.

    :param folders: URLs; each is a table's folder, or a folder in it.
    :param name: of the further column.
    :param depth: place of the table's folder in a file's path, counted from the end.
    """
    reader = spark.read.format("parquet").schema(columns)
    # Without it Spark reads values from the names of folders, for which it wants one root.
    rows = reader.option("recursiveFileLookup", "true").load(list(folders))
    folder = f"element_at(split(_metadata.file_path, '/'), {-depth})"
    return rows.selectExpr("*", f"substring_index({folder}, '=', -1) AS {name}")


def view_of(rows: DataFrame) -> str:
    """Register rows as a temporary view with a unique name for SQL statements."""
    name = f"sfevents_{uuid4().hex}"
    rows.createOrReplaceTempView(name)
    return name


def selected(rows: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Select SQL expressions from rows."""
    return rows.sparkSession.sql(f"SELECT {', '.join(columns)} FROM {view_of(rows)}")  # noqa: S608 - quoted names


def taken(there: StructField | None, wanted: StructField) -> str:
    """Make the SQL of a column, cast to the wanted type.

    It is null if the table lacks the column, or if it is a struct that lacks a wanted member.
    """
    from pyspark.sql.types import StructType

    name = quoted(wanted.name)
    absent = f"CAST(NULL AS {ddl(wanted.dataType)}) AS {name}"
    if there is None:
        return absent
    column = quoted(there.name)
    if isinstance(wanted.dataType, StructType):
        members = there.dataType.names if isinstance(there.dataType, StructType) else []
        if not set(wanted.dataType.names).issubset(members):
            return absent
        cast = ", ".join(
            f"{text(one.name)}, CAST({column}.{quoted(one.name)} AS {ddl(one.dataType)})"
            for one in wanted.dataType.fields
        )
        return f"CASE WHEN {column} IS NOT NULL THEN named_struct({cast}) END AS {name}"
    return f"CAST({column} AS {ddl(wanted.dataType)}) AS {name}"
