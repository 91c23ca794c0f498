"""Object definitions: fields of change events, and fields of REST and SOQL.

A change event has one field `BillingAddress`; REST also has `BillingStreet`, `BillingCity` ...
Records hold the plain REST fields; this module maps one form to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from airflow_provider_sfevents.emulator.bus import avro_schemas, avro_types
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, no_such_column

STAMPS = {
    "CreatedDate": "DateTime",
    "CreatedById": "EntityId",
    "LastModifiedDate": "DateTime",
    "LastModifiedById": "Lookup",
}
"""System fields of every object's change events, in the order of live orgs."""
PERSON_NAMES = ("PersonName", "Switchable_PersonName")
_SYSTEM = {"Id": "EntityId", "IsDeleted": "Boolean", "SystemModstamp": "DateTime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredField:
    """Field of change events.

    :param number: number of the custom field in the org; 0 for a standard field.
    """

    name: str
    kind: str
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Field of REST and SOQL.

    :param event: field of the change event that carries it; empty if none.
    :param member: member of that field, if it is a compound.
    :param read_only: set by the platform only.
    """

    name: str
    kind: str
    event: str = ""
    member: str = ""
    read_only: bool = False
    required: bool = False

    @property
    def path(self) -> str:
        """Path of the field in bitmaps: `Phone`, `BillingAddress.City`."""
        return f"{self.event}.{self.member}" if self.member else self.event


@dataclass(frozen=True, kw_only=True)
class SObject:
    """Object type of an org.

    :param prefix: first three characters of its records' ids.
    :param declared: fields of its change events after the header, in order.
    :param required: fields that a new record must have.
    :param tracked: changes are published.
    """

    name: str
    prefix: str
    declared: tuple[DeclaredField, ...]
    required: tuple[str, ...] = ()
    tracked: bool = True
    state_picklists: bool = False

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """Fields with a value of their own, by name, in order."""
        system = [Field(name=name, kind=kind, read_only=True) for name, kind in _SYSTEM.items()]
        own = [field for one in self.declared for field in self._plain(one)]
        return {field.name: field for field in (system[0], *own, *system[1:])}

    @cached_property
    def compounds(self) -> Mapping[str, DeclaredField]:
        """Compound fields: addresses, locations, a person's name."""
        return {
            one.name: one
            for one in self.declared
            if avro_types.members(one.kind, state_picklists=self.state_picklists)
        }

    @property
    def is_custom(self) -> bool:
        return self.name.endswith("__c")

    def find(self, name: str) -> Field | DeclaredField:
        """Field by its name in any case; a plain field takes precedence over a compound.

        :raises RecordRefusedError: unknown field.
        """
        if found := self._by_lower_name.get(name.lower()):
            return found
        raise no_such_column(name, self.name)

    def of_compound(self, name: str) -> dict[str, Field]:
        """Plain fields of a compound, by member name."""
        return {
            field.member: field
            for field in self.fields.values()
            if field.event == name and field.member
        }

    def schema(self, *, snapshot: bool) -> dict[str, Any]:
        """Schema of its change events."""
        return avro_schemas.change_event_schema(
            self.name,
            {one.name: one.kind for one in self.declared},
            avro_types.FieldTypes(state_picklists=self.state_picklists),
            snapshot=snapshot,
            numbers={one.name: one.number for one in self.declared if one.number},
        )

    def with_fields(self, declared: tuple[DeclaredField, ...]) -> SObject:
        return replace(self, declared=declared)

    @cached_property
    def _by_lower_name(self) -> dict[str, Field | DeclaredField]:
        compounds = {name.lower(): one for name, one in self.compounds.items()}
        return {**compounds, **{name.lower(): one for name, one in self.fields.items()}}

    def _plain(self, one: DeclaredField) -> list[Field]:
        members = avro_types.members(one.kind, state_picklists=self.state_picklists)
        fields = [
            Field(
                name=flat_name(one, member),
                kind=kind,
                event=one.name,
                member=member,
                required=flat_name(one, member) in self.required,
            )
            for member, kind in members
        ]
        if members and one.kind != "Switchable_PersonName":
            return fields
        own = Field(
            name=one.name,
            kind="Text" if members else one.kind,
            event=one.name,
            read_only=one.name in STAMPS,
            required=one.name in self.required,
        )
        return [own, *fields]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "prefix": self.prefix,
            "declared": [[one.name, one.kind, one.number] for one in self.declared],
            "required": list(self.required),
            "tracked": self.tracked,
            "state_picklists": self.state_picklists,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SObject:
        declared = tuple(
            DeclaredField(name=name, kind=kind, number=number)
            for name, kind, number in value["declared"]
        )
        return cls(**{**value, "declared": declared, "required": tuple(value["required"])})


def flat_name(compound: DeclaredField, member: str) -> str:
    """REST name of a compound's member: `BillingCity`, `FirstName`, `Home__City__s`."""
    if compound.kind in PERSON_NAMES:
        return member
    if compound.name.endswith("__c"):
        return f"{compound.name.removesuffix('c')}{member}__s"
    return compound.name.removesuffix("Address") + member


def expand(sobject: SObject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace compounds by their members; None becomes None for all members.

    :raises RecordRefusedError: the compound has no such member.
    """
    plain: dict[str, Any] = {}
    for name, value in given.items():
        members = sobject.of_compound(name)
        if value is None and name not in sobject.fields and members:
            plain |= {field.name: None for field in members.values()}
            continue
        if not isinstance(value, Mapping):
            plain[name] = value
            continue
        for member, of in value.items():
            if member not in members:
                raise RecordRefusedError(
                    "INVALID_FIELD", f"{sobject.name}.{name} has no member {member!r}", (name,)
                )
            plain[members[member].name] = of
    return plain
