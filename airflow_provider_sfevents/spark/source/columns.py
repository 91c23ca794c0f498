"""Columns of the source `sfevents`, which are fixed when a query is loaded. No I/O, no Spark.

1. Batches evolve the columns in their order, as landing evolves those of the event table.
2. A schema that is staged later can bring new columns, or new members of a struct. The running
   query has no place for them: their values go to `_rescued`, or the query ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.event_columns import EventType, plan_batch
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded, additions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan
    from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

RESCUED = "_rescued"
"""Column for the values of later fields, as a JSON object by field."""

_TYPES = {**envelope.TYPES, envelope.EVENT_DATE: "date", envelope.RAW_PAYLOAD: "binary"}
_RAW_ENVELOPE = tuple(name for name in envelope.ENVELOPE if name != envelope.EVENT_TIME)
"""Without the time of the event, which only its payload has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedColumns:
    """Columns of a loaded query.

    :param event_type: empty: raw payloads.
    :param own: columns of the event type.
    :param rescues: there is a column for later fields.
    """

    event_type: str
    own: tuple[Column, ...] = ()
    rescues: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        if not self.event_type:
            return (*_RAW_ENVELOPE, envelope.RAW_PAYLOAD)
        more = (envelope.EVENT_DATE, envelope.REASON, envelope.RAW_PAYLOAD)
        rescued = (RESCUED,) if self.rescues else ()
        return (*envelope.ENVELOPE, *(column.name for column in self.own), *more, *rescued)

    def sql(self) -> str:
        """All columns with their types, as Spark's DDL."""
        own = {column.name: column.type.sql() for column in self.own}
        return ", ".join(
            f"{quoted(name)} {own.get(name) or _TYPES.get(name, 'string')}" for name in self.names
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingPlan:
    """Plan of an executor for the events of one type.

    :param kind: the event type with the fixed columns, and behind them those to rescue; None: all
        its schemas are refused.
    :param refused: reasons by schema id; these events have no values.
    :param names: event type by schema id, of those that are read.
    :param rescued: field by column to rescue.
    """

    kind: EventType | None
    refused: Mapping[str, str]
    names: Mapping[str, str]
    rescued: Mapping[str, str]


def fixed_columns(
    event_type: str,
    batches: Iterable[Mapping[str, str]],
    count_events: Callable[[int], Mapping[str, int]],
    *,
    rescues: bool,
) -> FixedColumns:
    """Evolve the columns of an event type over all staged batches.

    :param batches: the schemas' JSON by id of each batch, oldest first.
    :param count_events: counts the events of a batch, given by its place, by schema id; only called
        for a batch whose schemas contradict each other.
    :raises ConfigurationError: no batch has events of this type.
    """
    recorded = Recorded()
    seen: set[str] = set()
    found: set[str] = set()
    for place, schemas in enumerate(batches):
        new = {schema_id: text for schema_id, text in schemas.items() if schema_id not in seen}
        if not new:
            continue
        seen |= new.keys()
        before = recorded

        def columns(name: str, before: Recorded = before) -> Recorded:
            return before if name == event_type else Recorded()

        def counts(place: int = place) -> Mapping[str, int]:
            return count_events(place)

        plan = plan_batch(new, counts, recorded=columns)
        found |= set(plan.names.values())
        if event_type in plan.evolutions:
            recorded = plan.evolutions[event_type].after
    if event_type not in found:
        there = f"It has {', '.join(sorted(found))}" if found else "It has no events"
        raise ConfigurationError(
            f"No staged batch of the topic has events of type {event_type!r}. {there}. Name one of "
            "them as event_type; or leave event_type out and read raw payloads; or start the query "
            "again once an event of the type is staged."
        )
    return FixedColumns(event_type=event_type, own=recorded.columns, rescues=rescues)


def decoding_plan(
    fixed: FixedColumns, schemas: Mapping[str, str], unknown: Mapping[str, str]
) -> DecodingPlan:
    """Plan the decoding of batches to the fixed columns.

    Events whose schema the service does not have may be of any type, so every type has them.

    :param schemas: JSON by id.
    :param unknown: reasons by id of schemas that the service does not have.
    :raises ConfigurationError: there are later fields, and they are not rescued.
    """
    plan = plan_batch(
        schemas,
        dict,
        unknown,
        recorded=lambda name: Recorded(columns=fixed.own if name == fixed.event_type else ()),
    )
    names = {one: name for one, name in plan.names.items() if name in ("", fixed.event_type)}
    refused = {one: reason for one, reason in plan.refused.items() if one in names}
    kind = next((one for one in plan.types if one.name == fixed.event_type), None)
    rescued: Mapping[str, str] = {}
    if kind is not None:
        kind, rescued = _with_rescued(fixed, plan, kind)
    return DecodingPlan(kind=kind, refused=refused, names=names, rescued=rescued)


def _with_rescued(
    fixed: FixedColumns, plan: SchemaPlan, kind: EventType
) -> tuple[EventType, Mapping[str, str]]:
    """Return the event type with the fixed columns, and a further column for each later field."""
    added = additions(Recorded(columns=fixed.own), plan.evolutions[kind.name].after)
    if added and not fixed.rescues:
        taken = ", ".join(".".join(path) for path, _, _ in added)
        ids = ", ".join(sorted(plan.schemas))
        raise ConfigurationError(
            f"Events of {kind.name} have a field that the running query has no column for (schemas "
            f"{ids}). Load and start the query again, from its checkpoint: restart to take column "
            f"{taken}. With the option later_fields='rescue' such values go to {RESCUED} instead."
        )
    after = {column.name: column for column in kind.columns}
    further = {f"{RESCUED}.{name}": after[name] for name in _names(added)}
    filled = {
        schema_id: {
            **fields,
            **{
                name: fields[column.name]
                for name, column in further.items()
                if column.name in fields and _brings(fixed, kind, schema_id, column.name)
            },
        }
        for schema_id, fields in kind.filled.items()
    }
    columns = (*fixed.own, *(replace(column, name=name) for name, column in further.items()))
    rescued = {name: column.name for name, column in further.items()}
    return replace(kind, columns=columns, filled=filled), rescued


def _brings(fixed: FixedColumns, kind: EventType, schema_id: str, name: str) -> bool:
    """Return whether the fixed columns do not hold all that a schema has for this column."""
    if name not in {column.name for column in fixed.own}:
        return True
    before = Recorded(columns=fixed.own)
    alone = plan_batch({schema_id: kind.schemas[schema_id]}, dict, recorded=lambda _: before)
    return name in _names(additions(before, alone.evolutions[kind.name].after))


def _names(added: Iterable[tuple[tuple[str, ...], FieldType, Column]]) -> list[str]:
    return list(dict.fromkeys(column.name for _, _, column in added))
