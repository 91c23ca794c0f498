"""Avro schemas of the events that the tests here land, by schema id."""

from __future__ import annotations

from typing import Any


def _schema(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    """Make a platform event's schema as GetSchema returns it, with two fields of its own."""
    own = [
        {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
        {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
    ]
    return {
        "type": "record",
        "name": name,
        "namespace": "com.sforce.eventbus",
        "fields": [*own, *fields],
    }


def _optional(name: str, kind: Any, doc: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": ["null", kind] if isinstance(kind, str) else kind,
        "doc": doc,
        "default": None,
    }


_STRINGS = {"type": "array", "items": "string"}
_HEADER = {
    "type": "record",
    "name": "ChangeEventHeader",
    "fields": [
        {"name": "entityName", "type": "string"},
        {"name": "recordIds", "type": _STRINGS},
        {
            "name": "changeType",
            "type": {"type": "enum", "name": "ChangeType", "symbols": ["CREATE", "UPDATE"]},
        },
        {"name": "transactionKey", "type": "string"},
        {"name": "sequenceNumber", "type": "int"},
        {"name": "commitTimestamp", "type": "long"},
        {"name": "commitNumber", "type": "long"},
        {"name": "nulledFields", "type": _STRINGS},
        {"name": "diffFields", "type": _STRINGS},
        {"name": "changedFields", "type": _STRINGS},
    ],
}
_PERSON = {
    "type": "record",
    "name": "Switchable_PersonName",
    "fields": [
        {"name": "FirstName", "type": ["null", "string"]},
        {"name": "LastName", "type": ["null", "string"]},
    ],
}
SCHEMAS = {
    "order": _schema(
        "Order__e",
        _optional("Number__c", "string", "Data:Text:00N000000000001"),
        _optional("Amount__c", "double", "Data:Double:00N000000000002"),
        _optional("Due__c", "long", "Data:DateOnly:00N000000000003"),
    ),
    "order2": _schema(
        "Order__e",
        _optional("Number__c", "string", "Data:Text:00N000000000001"),
        _optional("Size__c", "long", "Data:Integer:00N000000000004"),
    ),
    "order3": _schema("Order__e", _optional("Number__c", "double", "Data:Double:00N000000000001")),
    "alert": _schema("Alert__e", _optional("At__c", "long", "Data:TimeOnly:00N000000000005")),
    "account": {
        "type": "record",
        "name": "AccountChangeEvent",
        "namespace": "com.sforce.eventbus",
        "fields": [
            {"name": "ChangeEventHeader", "type": _HEADER},
            _optional("Name", ["null", "string", _PERSON], "Data:Switchable_PersonName"),
            _optional("LastModifiedDate", "long", "Data:DateTime"),
            _optional("NumberOfEmployees", "int", "Data:Integer"),
            _optional("IsActive", "boolean", "Data:Boolean"),
        ],
    },
}
