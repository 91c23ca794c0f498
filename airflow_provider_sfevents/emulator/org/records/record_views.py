"""Views of a record: REST's JSON, a change event's body, CSV. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus import avro_types
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.objects.object_definitions import (
    PERSON_NAMES,
    DeclaredField,
    Field,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

Column = Field | DeclaredField


def every_column(sobject: SObject) -> list[Column]:
    """All columns: fields with a value of their own, then REST's compounds."""
    compounds = [one for name, one in sobject.compounds.items() if name not in sobject.fields]
    return [*sobject.fields.values(), *compounds]


def raw(record: Record, column: Column) -> Any:
    """Value for comparison and sorting; a person's name as text."""
    if isinstance(column, DeclaredField):
        return _full_name(record) if column.kind in PERSON_NAMES else None
    held = record.get(column.name)
    if held is None and column.name == "Name":
        return _full_name(record)
    return held


def as_json(record: Record, column: Column, sobject: SObject) -> Any:
    """Value in REST's JSON."""
    if isinstance(column, DeclaredField) and column.kind not in PERSON_NAMES:
        return _compound(record, column, sobject)
    return field_values.as_json(raw(record, column), kind_of(column))


def as_csv(record: Record, column: Column) -> str:
    """Value in a bulk result."""
    return field_values.as_csv(raw(record, column), kind_of(column))


def row(
    record: Record, columns: Sequence[Column], sobject: SObject, version: str
) -> dict[str, Any]:
    """Record in REST's JSON."""
    url = f"/services/data/v{version}/sobjects/{sobject.name}/{record.id}"
    shown = {column.name: as_json(record, column, sobject) for column in columns}
    return {"attributes": {"type": sobject.name, "url": url}, **shown}


def as_event(record: Record, sobject: SObject) -> dict[str, Any]:
    """Body of a record's change event, times in ISO-8601; None for no value."""
    return {one.name: _event_value(record, one, sobject) for one in sobject.declared}


def kind_of(column: Column) -> str:
    """Type of a column's values."""
    return "Text" if isinstance(column, DeclaredField) else column.kind


def _event_value(record: Record, one: DeclaredField, sobject: SObject) -> Any:
    inside = {
        member: field_values.as_iso(record.get(field.name), field.kind)
        for member, field in sobject.of_compound(one.name).items()
    }
    if any(value is not None for value in inside.values()):
        return inside
    return (
        None
        if one.name not in sobject.fields
        else field_values.as_iso(record.get(one.name), one.kind)
    )


def _full_name(record: Record) -> str | None:
    parts = [record.get(part) for part in ("FirstName", "LastName")]
    return " ".join(part for part in parts if part) or None


def _compound(record: Record, one: DeclaredField, sobject: SObject) -> dict[str, Any] | None:
    """Compound in REST's JSON: an object with members in lower camel case."""
    members = avro_types.members(one.kind, state_picklists=sobject.state_picklists)
    plain = sobject.of_compound(one.name)
    inside = {name: record.get(plain[name].name) for name, _ in members}
    if all(value is None for value in inside.values()):
        return None
    return {name[:1].lower() + name[1:]: inside[name] for name in sorted(inside)}
