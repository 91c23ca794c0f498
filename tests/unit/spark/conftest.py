"""Schemas and payloads of made-up events."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from fastavro import parse_schema, schemaless_writer

if TYPE_CHECKING:
    from collections.abc import Callable

STRINGS = {"type": "array", "items": "string"}
HEADER = {
    "type": "record",
    "name": "ChangeEventHeader",
    "fields": [
        {"name": "entityName", "type": "string"},
        {"name": "recordIds", "type": STRINGS},
        {
            "name": "changeType",
            "type": {"type": "enum", "name": "ChangeType", "symbols": ["CREATE", "UPDATE"]},
        },
        {"name": "commitTimestamp", "type": "long"},
        {"name": "nulledFields", "type": STRINGS},
        {"name": "diffFields", "type": STRINGS},
        {"name": "changedFields", "type": STRINGS},
    ],
}
PERSON = {
    "type": "record",
    "name": "Switchable_PersonName",
    "fields": [
        {"name": "FirstName", "type": ["null", "string"]},
        {"name": "LastName", "type": ["null", "string"]},
    ],
}
ACCOUNT = {
    "type": "record",
    "name": "AccountChangeEvent",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {"name": "ChangeEventHeader", "type": HEADER},
        {"name": "Name", "type": ["null", "string", PERSON], "default": None},
        {
            "name": "LastModifiedDate",
            "type": ["null", "long"],
            "doc": "Data:DateTime",
            "default": None,
        },
    ],
}
ORDER = {
    "type": "record",
    "name": "Order__e",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
        {"name": "Number__c", "type": ["null", "string"], "doc": "Data:Text", "default": None},
        {"name": "Due__c", "type": ["null", "long"], "doc": "Data:DateOnly", "default": None},
        {"name": "At__c", "type": ["null", "long"], "doc": "Data:TimeOnly", "default": None},
    ],
}


def encode(avro: dict[str, Any], record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(avro), record)
    return stream.getvalue()


def change(**header: Any) -> dict[str, Any]:
    return {
        "entityName": "Account",
        "recordIds": ["001A"],
        "changeType": "UPDATE",
        "commitTimestamp": 1_685_217_197_000,
        "nulledFields": [],
        "diffFields": [],
        "changedFields": [],
        **header,
    }


@pytest.fixture
def account_schema() -> str:
    return json.dumps(ACCOUNT)


@pytest.fixture
def order_schema() -> str:
    return json.dumps(ORDER)


@pytest.fixture
def account() -> Callable[..., bytes]:
    """Encode an account's change event: header fields by name, `Name` and `LastModifiedDate`."""

    def make(name: Any = None, modified: int | None = None, **header: Any) -> bytes:
        body = {"ChangeEventHeader": change(**header), "Name": name, "LastModifiedDate": modified}
        return encode(ACCOUNT, body)

    return make


@pytest.fixture
def order() -> Callable[..., bytes]:
    """Payload of an order event, by its fields."""

    def make(created: int = 1_793_491_200_000, **fields: Any) -> bytes:
        return encode(ORDER, {"CreatedDate": created, **fields})

    return make
