"""SQL that creates Delta and Iceberg tables, adds columns to them and reads a version of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import DataType, StructType


def pinned(target: str, version: str) -> str:
    """Make the SQL that reads one version of a table, so that later commits have no effect."""
    return f"SELECT * FROM {target} VERSION AS OF {version}"  # noqa: S608 - all is quoted


def create(
    target: str, using: str, schema: StructType, layout: str, properties: Mapping[str, str]
) -> str:
    """Make the statement that creates a table, unless it exists.

    :param layout: as made by `table_options.layout_sql`; empty for none.
    """
    columns = ", ".join(f"{quoted(field.name)} {ddl(field.dataType)}" for field in schema.fields)
    said = ", ".join(f"{text(key)} = {text(value)}" for key, value in properties.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {target} ({columns}) USING {using}"
        f"{f' {layout}' if layout else ''}{f' TBLPROPERTIES ({said})' if said else ''}"
    )


def add_columns(target: str, had: StructType, wanted: StructType) -> str:
    """Make one statement that adds the columns that a table lacks; empty if it lacks none.

    :raises ConfigurationError: a column is there with another type.
    """
    lacking = [
        f"{'.'.join(map(quoted, path))} {ddl(kind)}" for path, kind in _lacking(target, had, wanted)
    ]
    return f"ALTER TABLE {target} ADD COLUMNS ({', '.join(lacking)})" if lacking else ""


def ddl(kind: DataType) -> str:
    """Format a type as Spark's DDL, with quoted names."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        members = ", ".join(f"{quoted(one.name)}: {ddl(one.dataType)}" for one in kind.fields)
        return f"struct<{members}>"
    if isinstance(kind, ArrayType):
        return f"array<{ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return str(kind.simpleString())


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _lacking(
    target: str, had: DataType, wanted: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Find the paths and types of columns, and of members at any depth, that are missing."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(had, StructType) and isinstance(wanted, StructType):
        there = {field.name.casefold(): field for field in had.fields}
        for field in wanted.fields:
            same = there.get(field.name.casefold())
            if same is None:
                yield (*path, field.name), field.dataType
            else:
                yield from _lacking(target, same.dataType, field.dataType, (*path, same.name))
    elif isinstance(had, ArrayType) and isinstance(wanted, ArrayType):
        yield from _lacking(target, had.elementType, wanted.elementType, (*path, "element"))
    elif isinstance(had, MapType) and isinstance(wanted, MapType):
        yield from _lacking(target, had.valueType, wanted.valueType, (*path, "value"))
    elif had != wanted:
        raise ConfigurationError(
            f"Column {'.'.join(path)} of the table {target} is {had.simpleString()}, and the "
            f"batch has {wanted.simpleString()}; nothing was "
            "landed in it. The table was changed: change the column back, or land in another table."
        )
