"""Schemas of every shape of Salesforce, random events of them, and damaged payloads."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_writer

if TYPE_CHECKING:
    import random

_STRINGS = {"type": "array", "items": "string"}
_HEADER = {
    "type": "record",
    "name": "ChangeEventHeader",
    "fields": [
        {"name": "entityName", "type": "string"},
        {"name": "recordIds", "type": _STRINGS},
        {
            "name": "changeType",
            "type": {
                "type": "enum",
                "name": "ChangeType",
                "namespace": "",
                "symbols": ["CREATE", "UPDATE", "DELETE", "GAP_UPDATE", "SNAPSHOT"],
            },
        },
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
    "fields": [{"name": name, "type": ["null", "string"]} for name in ("FirstName", "LastName")],
}
_ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [
        {"name": "City", "type": ["null", "string"]},
        {"name": "Latitude", "type": ["null", "double"]},
    ],
}


def _field(name: str, kind: Any, doc: str) -> dict[str, Any]:
    branches = kind if isinstance(kind, list) else [kind]
    return {"name": name, "type": ["null", *branches], "doc": f"Data:{doc}", "default": None}


def event_schema(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": "com.sforce.eventbus",
        "fields": list(fields),
    }


def schema_text(name: str, **types: Any) -> str:
    """Schema of an event with fields of these types, as the service sends it."""
    return json.dumps(event_schema(name, *({"name": key, "type": types[key]} for key in types)))


ACCOUNT = event_schema(
    "AccountChangeEvent",
    {"name": "ChangeEventHeader", "type": _HEADER, "doc": "Data:ComplexValueType"},
    _field("Name", ["string", _PERSON], "Switchable_PersonName"),
    _field("BillingAddress", _ADDRESS, "Address"),
    _field("ShippingAddress", "Address", "Address"),
    _field("Employees", "long", "Integer"),
    _field("Revenue", "double", "Currency"),
    _field("Modified", "long", "DateTime"),
    _field("Founded", "long", "DateOnly"),
    _field("Opens", "long", "TimeOnly"),
    _field("Active", "boolean", "Boolean"),
    _field("Site", "string", "Text"),
)
OLDER_ACCOUNT = event_schema(
    "AccountChangeEvent",
    {"name": "ChangeEventHeader", "type": _HEADER, "doc": "Data:ComplexValueType"},
    _field("Name", "string", "Text"),
    _field("Employees", "int", "Integer"),
    _field("Gone", "string", "Text"),
)
READING = event_schema(
    "Reading__e",
    {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
    {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
    _field("Celsius__c", "double", "Double"),
    _field("Sensor__c", "string", "Text"),
)
AVRO = {"account": ACCOUNT, "older": OLDER_ACCOUNT, "reading": READING}

_INSTANTS = (0, -1, 1_685_217_197_123, 253_402_300_799_999, -62_135_596_800_000)
_BEYOND = (253_402_300_800_000, -(2**63), 2**63 - 1)
_TEXTS = ("", "Acme", "größer", "\x00", "a,b", "\u2028" * 90)
_DOUBLES = (0.0, -0.0, 0.1, 1e300, float("nan"), float("inf"), 5e-324)
_BITMAPS: tuple[list[str], ...] = (
    ["0x03"],
    ["0x0201", "2-0x01"],
    ["1-0x03"],
    [],
    ["0x80"],
    ["0x0a"],
)
_BAD_BITMAPS = (
    ["0x1000000"],
    ["2-0x08"],
    ["0x"],
    ["Name"],
    ["0x01,0x02"],
    [""],
    ["-0x01"],
    ["00x03"],
)
_ODD_BITMAPS = (["0x 1"], ["02-0x01"], ["0x1_0"], ["0X03"], ["0x01\n"])


@cache
def _parsed(name: str) -> Any:
    return parse_schema(AVRO[name])


def encoded(name: str, record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, _parsed(name), record)
    return stream.getvalue()


def event(chance: random.Random, number: int, name: str = "") -> tuple[str, bytes]:
    """A schema's name, and a payload of it.

    A few payloads have values that their columns cannot hold, or invalid bitmaps.
    """
    name = name or chance.choice(["account", "account", "older", "reading"])
    return name, encoded(
        name, {"account": _account, "older": _older, "reading": _reading}[name](chance, number)
    )


def spoiled(chance: random.Random, name: str, payload: bytes) -> tuple[str, bytes]:
    """The event, damaged in a random way."""
    at = chance.randrange(len(payload))
    what = chance.randrange(8)
    if what == 0:
        return chance.choice(sorted(AVRO)), payload
    spoilt = {
        1: payload[:at],
        2: payload + payload[at:],
        3: payload[:at] + chance.randbytes(1) + payload[at + 1 :],
        4: payload[:at] + chance.randbytes(9) + payload[at:],
        5: b"",
        6: payload[:at] + bytes([payload[at] ^ 1 << chance.randrange(8)]) + payload[at + 1 :],
        7: payload[:-1] + b"\x01\x02a",  # where the last field was null: branch -1, and a text
    }
    return name, spoilt[what]


def _maybe(chance: random.Random, value: Any) -> Any:
    return value if chance.random() < 0.6 else None


def _header(chance: random.Random, number: int) -> dict[str, Any]:
    bitmaps = _BITMAPS if chance.random() < 0.95 else (*_BAD_BITMAPS, *_ODD_BITMAPS)
    return {
        "entityName": "Account",
        "recordIds": [f"001{number:012}"] * chance.randrange(3),
        "changeType": chance.choice(["CREATE", "UPDATE", "SNAPSHOT"]),
        "sequenceNumber": chance.choice([1, -(2**31), 2**31 - 1]),
        "commitTimestamp": chance.choice(_INSTANTS if chance.random() < 0.98 else _BEYOND),
        "commitNumber": chance.choice([1_756_817_292_878_872_579, 2**63 - 1, -(2**63)]),
        "nulledFields": chance.choice(([], ["0x02"])),
        "diffFields": [],
        "changedFields": chance.choice(bitmaps),
    }


def _address(chance: random.Random) -> dict[str, Any]:
    return {
        "City": _maybe(chance, chance.choice(_TEXTS)),
        "Latitude": _maybe(chance, chance.choice(_DOUBLES)),
    }


def _account(chance: random.Random, number: int) -> dict[str, Any]:
    person = {"FirstName": "Ada", "LastName": _maybe(chance, "Lovelace")}
    name = chance.choice(
        [chance.choice(_TEXTS), ("com.sforce.eventbus.Switchable_PersonName", person)]
    )
    rare = chance.random() < 0.03
    return {
        "ChangeEventHeader": _header(chance, number),
        "Name": _maybe(chance, name),
        "BillingAddress": _maybe(chance, _address(chance)),
        "ShippingAddress": _maybe(chance, _address(chance)),
        "Employees": _maybe(chance, chance.choice([number, 2**53 + 1, -(2**63)])),
        "Revenue": _maybe(chance, chance.choice(_DOUBLES)),
        "Modified": _maybe(chance, chance.choice(_BEYOND if rare else _INSTANTS)),
        "Founded": _maybe(chance, chance.choice(_INSTANTS)),
        "Opens": _maybe(
            chance, chance.choice([0, 1, 86_399_999, *((86_400_000, -1) if rare else ())])
        ),
        "Active": _maybe(chance, bool(number % 2)),
        "Site": _maybe(chance, chance.choice(_TEXTS)),
    }


def _older(chance: random.Random, number: int) -> dict[str, Any]:
    header = _header(chance, number)
    return {
        "ChangeEventHeader": {**header, "changedFields": [], "nulledFields": ["0x04"]},
        "Name": _maybe(chance, chance.choice(_TEXTS)),
        "Employees": _maybe(chance, number),
        "Gone": _maybe(chance, "x"),
    }


def _reading(chance: random.Random, number: int) -> dict[str, Any]:
    return {
        "CreatedDate": chance.choice(_INSTANTS) if number % 40 else _BEYOND[0],
        "CreatedById": "005A",
        "Celsius__c": _maybe(chance, chance.choice(_DOUBLES)),
        "Sensor__c": _maybe(chance, chance.choice(_TEXTS)),
    }
