"""What a batch's schemas make of it: which event types it holds, and the columns of each. No I/O, no Spark."""

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
    """All events of one name in a batch, whichever of its schemas they were written with.

    :param schemas: the schemas' JSON by id.
    :param columns: all columns that the table has with this batch, in its order, those that nothing of the batch fills among them;
        all files of the batch are written with all of them. Which field each is read from is another for each schema: `columns_of`.
    :param filled: by schema id, the columns its events fill, each with the field's name as that schema spells it.
    """

    name: str
    schemas: Mapping[str, str]
    columns: tuple[Column, ...]
    filled: Mapping[str, Mapping[str, str]]

    def columns_of(self, schema_id: str) -> tuple[Column, ...]:
        """All `columns`, for events written with one of the schemas: `field` is what to read there, empty for a column that stays null.

        A column's type may be wider than the field's: an int in a column of longs, doubles or decimals, a text in the struct of a name
        that may be text, a struct in one with more members.
        """
        fields = self.filled[schema_id]
        return tuple(replace(column, field=fields.get(column.name, "")) for column in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What becomes of a batch.

    :param types: by name, sorted.
    :param refused: ids of schemas whose events go to quarantine whole, with the reason.
    :param names: event type by schema id, refused ones too; empty where the schema is not known.
    :param schemas: the schemas' JSON by id, refused ones too.
    :param evolutions: what became of each event type's columns, by name; for `drift`, and for what is to be recorded (`after`).
    """

    types: tuple[EventType, ...]
    refused: Mapping[str, str]
    names: Mapping[str, str]
    schemas: Mapping[str, str] = field(default_factory=dict)
    evolutions: Mapping[str, Evolution] = field(default_factory=dict)


def nothing_recorded(_event_type: str) -> Recorded:
    """As for tables that are not there yet."""
    return Recorded()


def plan_batch(
    schemas: Mapping[str, str],
    count_events: Callable[[], Mapping[str, int]],
    unknown: Mapping[str, str] | None = None,
    *,
    recorded: Callable[[str], Recorded] = nothing_recorded,
    decimals: Mapping[str, FieldType] | None = None,
    on_type_change: OnTypeChange = "new_column",
) -> BatchPlan:
    """Group schemas by event type and settle each type's columns.

    Where two schemas of a type contradict each other in what is new to the table, the one with more events has the first choice.

    :param schemas: JSON by id.
    :param count_events: events by schema id; asked only when there is a contradiction, as the answer is not free.
    :param unknown: schemas that cannot be had, with the reason why.
    :param recorded: the columns of an event type's table, by the type's name; asked once for each type of the batch.
    :param decimals: as `read_decimals` returns them.
    :param on_type_change: what becomes of a field that none of the table's columns can hold.
    :raises StagingError: a text is no Avro record; or what `recorded` raises.
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
        refused |= _reasons({**untypeable, **evolution.refused})
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
    return BatchPlan(
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
    """Settle the columns of one table.

    :param recorded: the columns that it has.
    :param fields: of each schema of the batch, by its id; `count_events` as of `plan_batch`.
    """
    before = told(recorded, fields.values())
    evolution = evolve(before, fields, on_type_change)
    if evolution.contested:
        evolution = evolve(before, _most_events_first(fields, count_events()), on_type_change)
    return evolution


def _fields(
    ids: Iterable[str], schemas: Mapping[str, str], decimals: Mapping[str, FieldType]
) -> tuple[dict[str, Fields], dict[str, str]]:
    """Fields of the schemas that a table can have, by id; the reasons of the others."""
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


def _reasons(said: Mapping[str, str]) -> dict[str, str]:
    return {
        schema_id: f"schema {schema_id}: {reason}"[:_REASON_LENGTH]
        for schema_id, reason in said.items()
    }


def _name(schema_id: str, text: str) -> str:
    try:
        return event_type(text)
    except ValueError as error:
        raise StagingError(
            f"The staged schema {schema_id} cannot be used: {error}. Delete the file schemas/{schema_id}.avsc of the batch "
            "and run the fetch again, which gets it anew."
        ) from error
