"""Columns of a table without a record of them, read off the table's schema in Spark. No I/O.

The table has less information than a record: text, a time of day and JSON are all strings there,
and the member of a struct that holds a name's text is not marked. The schemas of the batch that
lands next tell it for their fields; for others it is guessed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.schema.envelope import BATCH_ID, ORDINAL, RESERVED
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql.types import DataType, StructType

    from airflow_provider_sfevents.spark.schema.field_types import Fields, Kind

# Which tables are a landing's: the others are refused before a row goes into them.
_OURS = frozenset({BATCH_ID, ORDINAL})

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
_SPELLED_BY_STRING = frozenset({"time", "json"})


def found_in(table: StructType | None) -> Recorded:
    """Find the columns of an event table; none if no landing has made it.

    :param table: its schema; None: there is no table.
    """
    if table is None or not _OURS.issubset(table.names):
        return Recorded()
    types = {field.name: field_type(field.dataType) for field in table.fields}
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


def columns_found(types: Mapping[str, FieldType]) -> Recorded:
    """Columns of a table, without those of the envelope.

    :param types: by column, in the table's order.
    """
    columns = (
        Column(name=name, field=_field_of(name), type=_guessed(kind, _field_of(name)))
        for name, kind in types.items()
        if name.casefold() not in RESERVED
    )
    return Recorded(columns=tuple(columns), found=True)


def told(before: Recorded, schemas: Iterable[Fields]) -> Recorded:
    """Complete columns found in a table by a batch's schemas; recorded ones are not changed."""
    if not before.found:
        return before
    said: dict[str, FieldType] = {}
    for fields in schemas:
        for name, kind in fields:
            said.setdefault(name.casefold(), kind)
    columns = (
        replace(column, type=_as_said(column.type, said.get(column.field.casefold())))
        for column in before.columns
    )
    return replace(before, columns=tuple(columns))


def _field_of(column: str) -> str:
    """Field that a column is named after (`envelope.column_name`)."""
    return column[:-1] if column.endswith("_") and column[:-1].casefold() in RESERVED else column


def _guessed(kind: FieldType, name: str) -> FieldType:
    if kind.item is not None:
        return replace(kind, item=_guessed(kind.item, name))
    members = tuple((member, _guessed(inner, member)) for member, inner in kind.members)
    texts = {member for member, inner in members if inner.kind == "string"}
    text = next((one for one in (f"{name}_text", name) if one in texts), "")
    return replace(kind, members=members, text_member=text)


def _as_said(found: FieldType, said: FieldType | None) -> FieldType:
    if said is None:
        return found
    if found.kind == "string" and said.kind in _SPELLED_BY_STRING:
        return said
    if found.item is not None and found.kind == said.kind:
        return replace(found, item=_as_said(found.item, said.item))
    if found.kind != "struct" or said.kind != "struct":
        return found
    inner = dict(said.members)
    text = found.text_member
    if said.text_member in dict(found.members):
        text = said.text_member
    elif text in inner:
        text = ""  # a member of the record's own
    members = tuple((name, _as_said(kind, inner.get(name))) for name, kind in found.members)
    return replace(found, members=members, text_member=text)
