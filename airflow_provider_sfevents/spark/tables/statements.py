"""SQL that lands a batch in Delta and Iceberg tables, and adds columns to them.

Plain text from plain values.

Each landing is a MERGE, also the first one: two concurrent appends would both succeed, but of two
MERGEs the second fails, because the first changed what it had read, and is retried. The MERGE
compares only the rows of this batch, on the dates where it has or had rows, so that other files are
not opened. Rows that the batch no longer has are in the source, marked `gone`. (`WHEN NOT MATCHED
BY SOURCE` would be shorter, but Spark then reads, and for Iceberg rewrites, the whole table.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql.types import DataType, StructType

_MOST_DATES = 200


def merge(
    target: str, source: str, columns: Sequence[str], batch_id: str, dates: Collection[str]
) -> str:
    """Replace the rows of a batch by those of the source.

    :param target: quoted.
    :param source: name of a view with the columns and `envelope.GONE`.
    :param dates: ISO-8601, those of the source's rows and those of the rows that are there.
    """
    ours = of_batch(batch_id, dates, "t.")
    pairs = [(f"t.{quoted(name)}", f"s.{quoted(name)}", quoted(name)) for name in columns]
    return (
        f"MERGE INTO {target} t USING {source} s ON {ours} AND t.{envelope.ORDINAL} = "  # noqa: S608 - all is quoted
        f"s.{envelope.ORDINAL} "
        f"WHEN MATCHED AND s.{envelope.GONE} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET "
        f"{', '.join(f'{left} = {right}' for left, right, _ in pairs)} "
        f"WHEN NOT MATCHED AND NOT s.{envelope.GONE} "
        f"THEN INSERT ({', '.join(name for *_, name in pairs)}) "
        f"VALUES ({', '.join(right for _, right, _ in pairs)})"
    )


def insert(
    target: str, source: str, columns: Sequence[str], batch_id: str, dates: Collection[str]
) -> str:
    """Add the rows of a batch that has none in the table.

    If the table has some of them already, these are not added again.
    """
    names = [quoted(name) for name in columns]
    return (
        f"MERGE INTO {target} t USING {source} s "  # noqa: S608 - all of it is quoted
        f"ON {of_batch(batch_id, dates, 't.')} AND t.{envelope.ORDINAL} = s.{envelope.ORDINAL} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) "
        f"VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def delete(target: str, batch_id: str, dates: Collection[str]) -> str:
    return f"DELETE FROM {target} WHERE {of_batch(batch_id, dates)}"  # noqa: S608 - as above


def pinned(target: str, version: str) -> str:
    """Make the SQL that reads one version of a table, so that later commits have no effect."""
    return f"SELECT * FROM {target} VERSION AS OF {version}"  # noqa: S608 - as above


def of_batch(batch_id: str, dates: Collection[str], prefix: str = "") -> str:
    """Condition for the rows of a batch; its dates let the format skip files."""
    return f"{prefix}{envelope.BATCH_ID} = {text(batch_id)} AND {on_dates(dates, prefix)}"


def on_dates(dates: Collection[str], prefix: str = "") -> str:
    name = f"{prefix}{envelope.EVENT_DATE}"
    days = [f"DATE{text(date)}" for date in sorted(dates)]
    if not days:
        return "false"
    if len(days) > _MOST_DATES:
        return f"{name} BETWEEN {days[0]} AND {days[-1]}"
    return f"{name} IN ({', '.join(days)})"


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
