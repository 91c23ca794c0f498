"""Columns of a table without a record of them, read off the table. No I/O, no Spark.

The table has less information than a record: text, a time of day and JSON are all strings there,
and the member of a struct that holds a name's text is not marked. The schemas of the batch that
lands next tell it for their fields; for others it is guessed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.schema.envelope import RESERVED
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.spark.schema.field_types import Fields

_SPELLED_BY_STRING = frozenset({"time", "json"})


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
