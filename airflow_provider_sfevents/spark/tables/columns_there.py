"""Columns of an event table that has no record of its columns, derived from Spark's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import FieldType
from airflow_provider_sfevents.spark.schema.found_columns import columns_found
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

    from airflow_provider_sfevents.spark.schema.field_types import Kind
    from airflow_provider_sfevents.spark.tables.interface import Tables

# Which tables are a landing's: the others are refused before a row goes into them.
_OURS = frozenset({envelope.BATCH_ID, envelope.ORDINAL})

_PLAIN: Mapping[str, Kind] = {
    "boolean": "boolean",
    "integer": "int",
    "long": "long",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
}


def found_in(tables: Tables, event_type: str) -> Recorded:
    """Find the columns of an event type's table; none if no landing has made one."""
    schema = tables.schema(event_type)
    if schema is None or not _OURS.issubset(schema.names):
        return Recorded()
    types = {field.name: field_type(field.dataType) for field in schema.fields}
    return columns_found({name: kind for name, kind in types.items() if kind is not None})


def field_type(kind: DataType) -> FieldType | None:
    """Find the field type of a column; None for a user's own column, which stays null."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(kind, DecimalType):
        return FieldType(kind="decimal", precision=kind.precision, scale=kind.scale)
    if isinstance(kind, StructType):
        members = [(field.name, field_type(field.dataType)) for field in kind.fields]
        made = tuple((name, inner) for name, inner in members if inner is not None)
        return FieldType(kind="struct", members=made) if len(made) == len(members) else None
    if isinstance(kind, ArrayType | MapType):
        item = field_type(kind.elementType if isinstance(kind, ArrayType) else kind.valueType)
        return item and FieldType(kind="array" if isinstance(kind, ArrayType) else "map", item=item)
    plain = _PLAIN.get(kind.typeName())
    return FieldType(kind=plain) if plain else None
