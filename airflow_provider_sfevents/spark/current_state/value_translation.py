"""Convert values of event tables to values of current-state tables. No I/O, no Spark.

A field's column may have different names and types in the two tables: each table has a column for
each kind that the field has had since the table was made. So values are mapped from column to field
to column, by the schema that the event was written with. Both columns can hold the field's type
(`evolution.held`), so each value fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.avro.decode import HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_sfevents.spark.schema.evolution import Evolution
    from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The column of an entity's table that values of an event table's column go to.

    :param had: type of the event table's column; `wanted`: of the entity's.
    """

    column: str
    had: FieldType
    wanted: FieldType


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """Mapping of the columns of one event table to those of one entity's table.

    :param targets: by schema id, then by column of the event table.
    :param refused: reasons by schema id, of those that the entity's table has no columns for.
    :param columns: of the entity's table, for values.
    """

    targets: Mapping[str, Mapping[str, Target]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()


def translation(landed: Evolution, entity: Evolution) -> Translation:
    """Make the mapping for each schema of a batch.

    :param landed: of the event table; `entity`: of the entity's, by the same schemas.
    """
    had = {column.name: column.type for column in landed.after.columns}
    wanted = {column.name: column.type for column in entity.after.columns}
    found: dict[str, dict[str, Target]] = {}
    for schema_id, sources in landed.filled.items():
        columns = {of: name for name, of in entity.filled.get(schema_id, {}).items()}
        found[schema_id] = {
            name: Target(column=columns[of], had=had[name], wanted=wanted[columns[of]])
            for name, of in sources.items()
            if of in columns and of != HEADER
        }
    return Translation(
        targets=found,
        refused=dict(entity.refused),
        columns=tuple(one for one in entity.after.columns if one.field != HEADER),
    )


_NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "long": int,
    "double": float,
    "decimal": Decimal,
}


def converted(given: Any, had: FieldType, wanted: FieldType) -> Any:
    """Convert a value between two columns that can both hold its type."""
    if given is None or had == wanted:
        return given
    if had.kind == "struct" or wanted.kind == "struct":
        return _of_members(given, had, wanted)
    if had.item is not None and wanted.item is not None:
        if isinstance(given, list | tuple) and had.kind == "map":
            return [(key, converted(one, had.item, wanted.item)) for key, one in given]
        return [converted(one, had.item, wanted.item) for one in given]
    return _NUMBERS[wanted.kind](given) if wanted.kind in _NUMBERS else given


def _of_members(given: Any, had: FieldType, wanted: FieldType) -> Any:
    """Convert between two compounds, or between a text and the compound's member for it."""
    if wanted.kind != "struct":
        return given[had.text_member]
    if had.kind != "struct":
        given = {wanted.text_member: given}
        members = {wanted.text_member: dict(wanted.members)[wanted.text_member]}
    else:
        members = dict(had.members)
    return {
        name: converted(given.get(name), members[name], kind) if name in members else None
        for name, kind in wanted.members
    }
