"""Definition of objects and changes of their fields. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import api_names
from airflow_provider_sfevents.emulator.bus import avro_types
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.objects.object_definitions import (
    STAMPS,
    DeclaredField,
    SObject,
)
from airflow_provider_sfevents.emulator.org.objects.standard_objects import PERSON_FIELDS, STANDARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.emulator.knobs import Knobs

_BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def define(
    name: str,
    fields: Mapping[str, str],
    *,
    required: tuple[str, ...],
    tracked: bool,
    known: tuple[SObject, ...],
    knobs: Knobs,
) -> SObject:
    """Define a built-in object, or a custom one.

    :param fields: types by field name; a built-in object has these after its own.
    :param known: existing objects of the org; an earlier definition keeps its prefix.
    :raises EmulatorError: the name is neither built in nor a custom object's, or a type is unknown.
    """
    api_names.check(name, "object")
    before = next((one for one in known if one.name == name), None)
    if name in STANDARD:
        prefix = STANDARD[name].prefix
        kinds = {**_standard(name, knobs), **fields}
        required = (*STANDARD[name].required, *required)
        tracked = tracked and STANDARD[name].tracked
    elif name.endswith("__c"):
        prefix = before.prefix if before else _prefix(known)
        kinds = {"OwnerId": "Lookup", "Name": "Text", **STAMPS, **fields}
    else:
        raise EmulatorError(
            f"object {name!r} is neither built in ({', '.join(STANDARD)}) nor a custom object, "
            "whose name ends in __c"
        )
    declared = _declared(kinds, before.declared if before else (), known)
    if wrong := set(required) - {of for one in declared for of in _names(one, knobs)}:
        raise EmulatorError(f"object {name}: required field {min(wrong)!r} is not among its fields")
    return SObject(
        name=name,
        prefix=prefix,
        declared=declared,
        required=required,
        tracked=tracked,
        state_picklists=knobs.state_picklists,
    )


def adopted(name: str, schema: dict[str, Any], known: tuple[SObject, ...], knobs: Knobs) -> SObject:
    """Define an object from the schema of an entity that only had change events."""
    kinds = {field["name"]: _kind(field["doc"]) for field in schema["fields"][1:]}
    standard = STANDARD.get(name)
    made = SObject(
        name=name,
        prefix=standard.prefix if standard else _prefix(known),
        declared=_declared(kinds, (), known),
        state_picklists=knobs.state_picklists,
    )
    required = tuple(one for one in standard.required if one in made.fields) if standard else ()
    return replace(made, required=required)


def evolved(
    sobject: SObject, add: Mapping[str, str], remove: Iterable[str], known: tuple[SObject, ...]
) -> SObject:
    """Next version of an object: fields removed, new fields appended.

    :raises EmulatorError: a field to remove is missing or belongs to the platform, or a field to
        add exists.
    """
    gone, here = set(remove), {one.name for one in sobject.declared}
    if missing := gone - here:
        raise EmulatorError(
            f"{sobject.name} has no field {min(missing)!r} to remove; it has "
            f"{', '.join(sorted(here))}"
        )
    if kept := gone & {*STAMPS, *sobject.required}:
        raise EmulatorError(f"{sobject.name}: field {min(kept)!r} cannot be removed")
    if double := set(add) & (here - gone):
        raise EmulatorError(f"{sobject.name} has a field {min(double)!r} already")
    left = tuple(one for one in sobject.declared if one.name not in gone)
    return sobject.with_fields((*left, *_declared(add, (), known)))


def converted(sobject: SObject, name: str, kind: str) -> SObject:
    """Version of an object in which a field has another type, in its old position.

    :raises EmulatorError: the field does not exist, or is or becomes a compound.
    """
    kind = avro_types.canonical(name, kind)
    if name not in sobject.fields or name in sobject.compounds:
        raise EmulatorError(f"{sobject.name} has no plain field {name!r} to convert")
    if sobject.fields[name].read_only or sobject.fields[name].required:
        raise EmulatorError(f"{sobject.name}.{name} cannot be converted")
    if avro_types.members(kind, state_picklists=sobject.state_picklists):
        raise EmulatorError(f"{sobject.name}.{name} cannot become a compound ({kind})")
    return sobject.with_fields(
        tuple(replace(one, kind=kind) if one.name == name else one for one in sobject.declared)
    )


def restored(value: dict[str, Any]) -> SObject:
    """Object from its journal form."""
    return SObject.from_json(value)


def _standard(name: str, knobs: Knobs) -> dict[str, str]:
    kinds = STANDARD[name].fields()
    if name == "Account" and knobs.person_accounts:
        kinds = {**kinds, "Name": "Switchable_PersonName", **PERSON_FIELDS}
    return kinds


def _declared(
    kinds: Mapping[str, str], before: tuple[DeclaredField, ...], known: tuple[SObject, ...]
) -> tuple[DeclaredField, ...]:
    """Declare fields with their numbers.

    Custom fields are counted in the whole org, and keep their numbers.
    """
    numbers = {one.name: one.number for one in before}
    last = max((one.number for other in known for one in other.declared), default=0)
    made = []
    for name, kind in kinds.items():
        number = numbers.get(name, 0)
        if name.endswith("__c") and not number:
            number = last = last + 1
        made.append(DeclaredField(name=name, kind=avro_types.canonical(name, kind), number=number))
    return tuple(made)


def _kind(doc: str) -> str:
    """Field type from a schema's hint."""
    role, _, rest = doc.partition(":")
    return "Lookup" if role == "ForeignKey" else rest.partition(":")[0]


def _names(one: DeclaredField, knobs: Knobs) -> list[str]:
    """REST names of a declared field."""
    probe = SObject(name="", prefix="", declared=(one,), state_picklists=knobs.state_picklists)
    return list(probe.fields)


def _prefix(known: tuple[SObject, ...]) -> str:
    """Next free prefix of a custom object: a00, a01 ... as on the platform."""
    customs = sum(1 for one in known if one.is_custom)
    return f"a{_BASE36[customs // 36]}{_BASE36[customs % 36]}"
