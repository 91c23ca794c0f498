"""Avro types of Salesforce's field types, with their `doc` hints.

Source: schemas of live orgs; the table of types is in the facts of docs/reference/emulator.md.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_sfevents.emulator import api_names
from airflow_provider_sfevents.emulator.errors import EmulatorError

Field = dict[str, Any]

_AVRO = {
    **dict.fromkeys(
        (
            "Text",
            "StringPlusClob",
            "HtmlStringPlusClob",
            "Content",
            "Email",
            "Url",
            "Phone",
            "DynamicEnum",
            "StaticEnum",
            "MultiEnum",
            "EncryptedText",
            "EntityId",
            "ExternalId",
        ),
        "string",
    ),
    **dict.fromkeys(("Double", "Currency", "Percent"), "double"),
    **dict.fromkeys(("DateTime", "DateOnly", "TimeOnly", "Birthday"), "long"),
    "Integer": "int",
    "Boolean": "boolean",
}
_ALIASES = {
    "TextArea": "Text",
    "LongTextArea": "StringPlusClob",
    "Html": "HtmlStringPlusClob",
    "Picklist": "DynamicEnum",
    "MultiselectPicklist": "MultiEnum",
    "Checkbox": "Boolean",
    "Number": "Double",
    "Date": "DateOnly",
    "Time": "TimeOnly",
    "Reference": "Lookup",
    "Id": "EntityId",
}
_NAME_PARTS = ("Salutation", "FirstName", "LastName")
_COMPOUNDS: dict[str, tuple[tuple[str, str], ...]] = {
    "Address": (
        ("Street", "StringPlusClob"),
        ("City", "Text"),
        ("State", "Text"),
        ("PostalCode", "Text"),
        ("Country", "Text"),
        ("Latitude", "Double"),
        ("Longitude", "Double"),
        ("GeocodeAccuracy", "StaticEnum"),
    ),
    "Location": (("Latitude", "Double"), ("Longitude", "Double")),
    "PersonName": tuple((part, "Text") for part in _NAME_PARTS),
    "Switchable_PersonName": tuple((part, "Text") for part in _NAME_PARTS),
}
_STATE_CODES = (("StateCode", "DynamicEnum"), ("CountryCode", "DynamicEnum"))


def canonical(name: str, kind: str) -> str:
    """Canonical name of a field's type, as in Salesforce's schemas: `DynamicEnum` for `Picklist`.

    :param name: name of the field, which is checked, too.
    :raises EmulatorError: Salesforce has no such type, or allows no such name.
    """
    api_names.check(name, "field")
    spelt = _ALIASES.get(kind, kind)
    if spelt not in _AVRO and spelt not in _COMPOUNDS and spelt != "Lookup":
        known = sorted({*_AVRO, *_ALIASES, *_COMPOUNDS, "Lookup"})
        raise EmulatorError(
            f"field {name!r}: {kind!r} is not a type of Salesforce's; known: {', '.join(known)}"
        )
    return spelt


def avro_type(kind: str) -> str:
    """Avro type of the values of a plain, canonical type."""
    return "string" if kind == "Lookup" else _AVRO[kind]


def members(kind: str, *, state_picklists: bool) -> tuple[tuple[str, str], ...]:
    """Members of a compound type, by name and type; empty for a plain type."""
    found = list(_COMPOUNDS.get(kind, ()))
    if kind == "Address" and state_picklists:
        found[5:5] = _STATE_CODES
    return tuple(found)


class FieldTypes:
    """Builds the fields of one schema.

    The record of a compound type is defined at its first use and referenced by name afterwards.

    :param prefix: start of the 15-character ids of custom fields, as assigned by the org.
    :param state_picklists: addresses have codes for state and country.
    """

    def __init__(self, *, prefix: str = "00NgL00000v", state_picklists: bool = False) -> None:
        self._prefix = prefix
        self._state_picklists = state_picklists
        self._defined: set[str] = set()
        self._customs = 0

    def field(self, name: str, kind: str, number: int | None = None) -> Field:
        """Build one nullable field of a schema.

        :param number: number of the custom field in the org; the next free number if not given.
        :raises EmulatorError: Salesforce has no such type, or allows no such name.
        """
        kind = canonical(name, kind)
        if kind in _COMPOUNDS:
            return self._field(name, self._compound(kind), f"Data:{kind}", number)
        if kind == "Lookup":
            return self._field(name, "string", "ForeignKey:EntityId", number)
        role = {"CreatedDate": "CreatedDate", "CreatedById": "CreatedBy"}.get(name, "Data")
        return self._field(name, _AVRO[kind], f"{role}:{kind}", number)

    def _field(self, name: str, avro: Any, doc: str, number: int | None) -> Field:
        if name.endswith("__c"):
            self._customs += 1
            doc = f"{doc}:{self._prefix}{number or self._customs:04d}"
        # Account.Name of an org with person accounts: text for a business, a record for a person.
        union = ["null", "string", avro] if doc.startswith("Data:Switchable") else ["null", avro]
        return {"name": name, "type": union, "doc": doc, "default": None}

    def _compound(self, kind: str) -> Any:
        if kind in self._defined:
            return kind
        self._defined.add(kind)
        return {
            "type": "record",
            "name": kind,
            "fields": [
                {"name": name, "type": ["null", _AVRO[of]], "doc": f"Data:{of}", "default": None}
                for name, of in members(kind, state_picklists=self._state_picklists)
            ],
        }
