"""Plan a batch from its schemas: its event types, and the columns of each. No I/O, no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.schema.decimals import with_decimals
from airflow_provider_sfevents.spark.schema.evolution import Evolution, OnTypeChange, evolve
from airflow_provider_sfevents.spark.schema.field_types import (
    Column,
    FieldType,
    UntypeableError,
    event_type,
    record_fields,
)
from airflow_provider_sfevents.spark.schema.found_columns import told
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_provider_sfevents.spark.schema.field_types import Fields

_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """All events of one name in a batch, of any of its schemas.

    :param schemas: the schemas' JSON by id.
    :param columns: all columns of the table with this batch, in its order, also those that the
        batch does not fill: all its files have all columns. The field of a column differs by
        schema: `columns_of`.
    :param filled: by schema id, the columns that its events fill, each with the field's name in
        that schema.
    """

    name: str
    schemas: Mapping[str, str]
    columns: tuple[Column, ...]
    filled: Mapping[str, Mapping[str, str]]

    def columns_of(self, schema_id: str) -> tuple[Column, ...]:
        """Columns for events of one schema: `field` is the field to read, empty for a null column.

        A column's type may be wider than the field's: an int in a column of longs, doubles or
        decimals, text in the struct of a name that may be text, a struct in one with more members.
        """
        fields = self.filled[schema_id]
        return tuple(replace(column, field=fields.get(column.name, "")) for column in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """Event types and schemas of a batch.

    :param types: by name, sorted.
    :param refused: reasons by id of schemas whose events all go to quarantine.
    :param names: event type by schema id, also of refused ones; empty for an unknown schema.
    :param schemas: the schemas' JSON by id, also of refused ones.
    :param evolutions: change of each event type's columns, by name.
    """

    types: tuple[EventType, ...]
    refused: Mapping[str, str]
    names: Mapping[str, str]
    schemas: Mapping[str, str] = field(default_factory=dict)
    evolutions: Mapping[str, Evolution] = field(default_factory=dict)


def nothing_recorded(_event_type: str) -> Recorded:
    """Columns of a table that does not exist yet."""
    return Recorded()


def plan_batch(
    schemas: Mapping[str, str],
    count_events: Callable[[], Mapping[str, int]],
    unknown: Mapping[str, str] | None = None,
    *,
    recorded: Callable[[str], Recorded] = nothing_recorded,
    decimals: Mapping[str, FieldType] | None = None,
    on_type_change: OnTypeChange = "new_column",
) -> SchemaPlan:
    """Group schemas by event type and decide each type's columns.

    If two schemas of a type contradict each other about new columns, the one with more events comes
    first.

    :param schemas: JSON by id.
    :param count_events: counts events by schema id; called only for a contradiction, as it takes
        time.
    :param unknown: reasons by id of schemas that the service does not have.
    :param recorded: returns the columns of an event type's table; called once for each type.
    :param decimals: as `read_decimals` returns them.
    :param on_type_change: rule for a field that no column of the table can hold.
    :raises StagingError: a text is no Avro record; or an error of `recorded`.
    """
    names = {schema_id: _name(schema_id, text) for schema_id, text in schemas.items()}
    refused = dict(unknown or {})
    types: list[EventType] = []
    evolutions: dict[str, Evolution] = {}
    for name in sorted(set(names.values())):
        ids = sorted(schema_id for schema_id in names if names[schema_id] == name)
        fields, untypeable = _fields(ids, schemas, decimals or {})
        evolution = evolved(recorded(name), fields, count_events, on_type_change)
        evolutions[name] = evolution
        refused |= {
            schema_id: f"schema {schema_id}: {reason}"[:_REASON_LENGTH]
            for schema_id, reason in {**untypeable, **evolution.refused}.items()
        }
        kept = {schema_id: schemas[schema_id] for schema_id in ids if schema_id in evolution.filled}
        if kept:
            types.append(
                EventType(
                    name=name,
                    schemas=kept,
                    columns=evolution.after.columns,
                    filled=evolution.filled,
                )
            )
    return SchemaPlan(
        types=tuple(types),
        refused=refused,
        names={**dict.fromkeys(unknown or (), ""), **names},
        schemas=schemas,
        evolutions=evolutions,
    )


def evolved(
    recorded: Recorded,
    fields: Mapping[str, Fields],
    count_events: Callable[[], Mapping[str, int]],
    on_type_change: OnTypeChange,
) -> Evolution:
    """Decide the columns of one table.

    :param recorded: its columns before.
    :param fields: of each schema of the batch, by its id.
    :param count_events: as of `plan_batch`.
    """
    before = told(recorded, fields.values())
    evolution = evolve(before, fields, on_type_change)
    if evolution.contested:
        evolution = evolve(before, _most_events_first(fields, count_events()), on_type_change)
    return evolution


def _fields(
    ids: Iterable[str], schemas: Mapping[str, str], decimals: Mapping[str, FieldType]
) -> tuple[dict[str, Fields], dict[str, str]]:
    """Fields by id of the schemas that a table can have, and the reasons of the others."""
    fields: dict[str, Fields] = {}
    untypeable: dict[str, str] = {}
    for schema_id in ids:
        try:
            found = record_fields(json.loads(schemas[schema_id]))
        except UntypeableError as reason:
            untypeable[schema_id] = str(reason)
        else:
            fields[schema_id] = with_decimals(found, decimals)
    return fields, untypeable


def _most_events_first(
    fields: Mapping[str, Fields], counts: Mapping[str, int]
) -> dict[str, Fields]:
    ids = sorted(fields, key=lambda schema_id: (-counts.get(schema_id, 0), schema_id))
    return {schema_id: fields[schema_id] for schema_id in ids}


def _name(schema_id: str, text: str) -> str:
    try:
        return event_type(text)
    except ValueError as error:
        raise StagingError(
            f"The staged schema {schema_id} cannot be used: {error}. Delete the file "
            f"schemas/{schema_id}.avsc of the batch and run the fetch again, which gets it anew."
        ) from error
