"""Describe results of objects and events: fields with their types. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.avro_types import avro_type
from airflow_provider_sfevents.emulator.org.objects.object_definitions import (
    PERSON_NAMES,
    DeclaredField,
    Field,
)
from airflow_provider_sfevents.emulator.org.records import record_views, text_diffs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject

_TYPES = {
    "Text": "string",
    "Content": "string",
    "StringPlusClob": "textarea",
    "HtmlStringPlusClob": "textarea",
    "Email": "email",
    "Url": "url",
    "Phone": "phone",
    "DynamicEnum": "picklist",
    "StaticEnum": "picklist",
    "MultiEnum": "multipicklist",
    "EncryptedText": "encryptedstring",
    "EntityId": "reference",
    "Lookup": "reference",
    "ExternalId": "string",
    "Double": "double",
    "Currency": "currency",
    "Percent": "percent",
    "Integer": "int",
    "Boolean": "boolean",
    "DateTime": "datetime",
    "DateOnly": "date",
    "Birthday": "date",
    "TimeOnly": "time",
    "Address": "address",
    "Location": "location",
}
_COMPOUND = ("Address", "Location")
_RECORDS_CAN = ("createable", "deletable", "undeletable", "updateable")
_READ = ("queryable", "replicateable", "retrieveable")
_SOAP = {"string": "xsd:string", "double": "xsd:double", "int": "xsd:int", "boolean": "xsd:boolean"}
_SOAP_TIMES = {"DateTime": "xsd:dateTime", "TimeOnly": "xsd:time"}


def described_briefly(sobject: SObject, version: str) -> dict[str, Any]:
    """Entry of an object in the list of all objects."""
    path = f"/services/data/v{version}/sobjects/{sobject.name}"
    can = dict.fromkeys((*_RECORDS_CAN, *_READ), True)
    return {
        "name": sobject.name,
        "label": sobject.name.removesuffix("__c").replace("_", " "),
        "keyPrefix": sobject.prefix,
        "custom": sobject.is_custom,
        **can,
        "urls": {
            "sobject": path,
            "describe": f"{path}/describe",
            "rowTemplate": f"{path}/{{ID}}",
        },
    }


def event_described_briefly(topic: BusTopic, version: str) -> dict[str, Any]:
    """Entry of an event in the list of all objects.

    A platform event or an object's change events.
    """
    name = topic.name.rpartition("/")[2]
    is_change = topic.kind == "change"
    path = f"/services/data/v{version}/sobjects/{name}"
    can = dict.fromkeys((*_RECORDS_CAN, *_READ), False)
    return {
        "name": name,
        "label": name.removesuffix("__e").replace("_", " ").strip(),
        "keyPrefix": None if is_change else "e00",
        "custom": "__" in name,
        **can,
        "createable": topic.can_publish,
        "associateEntityType": "ChangeEvent" if is_change else None,
        "associateParentEntity": topic.record if is_change else None,
        "urls": {
            "sobject": path,
            "describe": f"{path}/describe",
            "eventSchema": f"{path}/eventSchema",
        },
    }


def describe_event(topic: BusTopic, schema: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Describe result of an event, with its fields."""
    own = [_event_field(field, createable=topic.can_publish) for field in schema["fields"]]
    about = [_described(name, "string", "xsd:string") for name in ("ReplayId", "EventUuid")]
    return {**event_described_briefly(topic, version), "fields": [*about, *own]}


def _event_field(field: Mapping[str, Any], *, createable: bool) -> dict[str, Any]:
    kind = next(iter(str(field.get("doc", "")).split(":")[1:2]), "Text")
    avro = avro_type(kind) if kind in _TYPES and kind not in _COMPOUND else "string"
    described = _described(
        field["name"],
        _TYPES.get(kind, "complexvalue" if kind == "ComplexValueType" else "string"),
        _SOAP_TIMES.get(kind, "xsd:date" if avro == "long" else _SOAP.get(avro, "xsd:string")),
    )
    system = str(field.get("doc", "")).startswith("Created")
    return {**described, "createable": createable and not system, "nillable": not system}


def describe(sobject: SObject, version: str) -> dict[str, Any]:
    """Describe result of an object, with its fields."""
    fields = [_field(column) for column in record_views.every_column(sobject)]
    return {**described_briefly(sobject, version), "fields": fields}


def _field(column: Field | DeclaredField) -> dict[str, Any]:
    if isinstance(column, DeclaredField):
        kind = "Text" if column.kind in PERSON_NAMES else column.kind
        return _described(
            column.name, _TYPES[kind], "xsd:string" if kind == "Text" else f"urn:{kind.lower()}"
        )
    avro = avro_type(column.kind)
    is_id = column.name == "Id"
    found = _described(
        column.name,
        "id" if is_id else _TYPES[column.kind],
        "tns:ID"
        if column.kind in {"EntityId", "Lookup"}
        else _SOAP_TIMES.get(column.kind, "xsd:date" if avro == "long" else _SOAP.get(avro, "")),
    )
    writable = not column.read_only
    return {
        **found,
        "nillable": not (column.required or column.read_only or avro == "boolean"),
        "createable": writable,
        "updateable": writable,
        "filterable": column.kind not in text_diffs.KINDS,
        "sortable": column.kind not in text_diffs.KINDS,
        "compoundFieldName": column.event if column.member else None,
        "defaultedOnCreate": avro == "boolean" or column.read_only or column.name == "OwnerId",
    }


def _described(name: str, kind: str, soap: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.removesuffix("__c").replace("_", " "),
        "type": kind,
        "soapType": soap,
        "custom": name.endswith(("__c", "__s")),
        "nillable": True,
        "createable": False,
        "updateable": False,
        "filterable": False,
        "sortable": False,
        "compoundFieldName": None,
        "defaultedOnCreate": False,
    }
