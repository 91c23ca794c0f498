"""What describe says of an object: its fields with their types. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.field_types import avro_type
from airflow_provider_sfevents.emulator.sobjects import longtext, reading
from airflow_provider_sfevents.emulator.sobjects.definitions import PERSON_NAMES, Declared, Field

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.sobjects.definitions import SObject

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
_SOAP = {"string": "xsd:string", "double": "xsd:double", "int": "xsd:int", "boolean": "xsd:boolean"}
_SOAP_TIMES = {"DateTime": "xsd:dateTime", "TimeOnly": "xsd:time"}


def described_briefly(sobject: SObject, version: str) -> dict[str, Any]:
    """Object as the list of all objects has it."""
    path = f"/services/data/v{version}/sobjects/{sobject.name}"
    can = dict.fromkeys(
        (
            "createable",
            "deletable",
            "queryable",
            "replicateable",
            "retrieveable",
            "undeletable",
            "updateable",
        ),
        True,
    )
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


def describe(sobject: SObject, version: str) -> dict[str, Any]:
    """Object with its fields."""
    fields = [_field(column) for column in reading.every_column(sobject)]
    return {**described_briefly(sobject, version), "fields": fields}


def _field(column: Field | Declared) -> dict[str, Any]:
    if isinstance(column, Declared):
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
        "filterable": column.kind not in longtext.KINDS,
        "sortable": column.kind not in longtext.KINDS,
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
