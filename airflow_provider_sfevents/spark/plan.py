"""What a batch's schemas make of it: which event types it holds, and the columns of each. No I/O, no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.envelope import column_name
from airflow_provider_sfevents.spark.fieldtypes import (
    Column,
    Fields,
    Untypeable,
    event_type,
    merged,
    record_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """All events of one name in a batch, whichever of its schemas they were written with.

    :param schemas: the schemas' JSON by id.
    :param columns: the columns all of them fit in.
    """

    name: str
    schemas: Mapping[str, str]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What becomes of a batch.

    :param types: by name, sorted.
    :param refused: ids of schemas whose events go to quarantine whole, with the reason.
    :param names: event type by schema id, refused ones too; empty where the schema is not known.
    """

    types: tuple[EventType, ...]
    refused: Mapping[str, str]
    names: Mapping[str, str]


def plan_batch(
    schemas: Mapping[str, str],
    count_events: Callable[[], Mapping[str, int]],
    unknown: Mapping[str, str] | None = None,
) -> BatchPlan:
    """Group schemas by event type and settle each type's columns.

    Where two schemas of a type contradict each other, the one with more events stays and the other is refused.

    :param schemas: JSON by id.
    :param count_events: events by schema id; asked only when there is a contradiction, as the answer is not free.
    :param unknown: schemas that cannot be had, with the reason why.
    :raises StagingError: a text is no Avro record.
    """
    names = {schema_id: _name(schema_id, text) for schema_id, text in schemas.items()}
    refused = dict(unknown or {})
    types: list[EventType] = []
    for name in sorted(set(names.values())):
        ids = sorted(schema_id for schema_id in names if names[schema_id] == name)
        fields, contradictions = _settle(ids, schemas)
        if contradictions and len(ids) > 1:
            counts = count_events()
            ids.sort(key=lambda schema_id: (-counts.get(schema_id, 0), schema_id))
            fields, contradictions = _settle(ids, schemas)
        refused |= contradictions
        kept = {
            schema_id: schemas[schema_id] for schema_id in ids if schema_id not in contradictions
        }
        if kept:
            types.append(EventType(name=name, schemas=kept, columns=_columns(fields)))
    return BatchPlan(
        types=tuple(types), refused=refused, names={**dict.fromkeys(unknown or (), ""), **names}
    )


def _settle(ids: Iterable[str], schemas: Mapping[str, str]) -> tuple[Fields, dict[str, str]]:
    """Find the columns of the first schema and of each that goes with those before it; the reason of each that does not."""
    fields: Fields = ()
    refused: dict[str, str] = {}
    for schema_id in ids:
        try:
            fields = merged(fields, record_fields(json.loads(schemas[schema_id])))
        except Untypeable as reason:
            refused[schema_id] = f"schema {schema_id}: {reason}"
    return fields, refused


def _columns(fields: Fields) -> tuple[Column, ...]:
    return tuple(Column(name=column_name(name), field=name, type=kind) for name, kind in fields)


def _name(schema_id: str, text: str) -> str:
    try:
        return event_type(text)
    except ValueError as error:
        raise StagingError(
            f"The staged schema {schema_id} cannot be used: {error}. Delete the file schemas/{schema_id}.avsc of the batch "
            "and run the fetch again, which gets it anew."
        ) from error
