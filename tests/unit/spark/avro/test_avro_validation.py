"""Payloads that a schema reads to their last byte."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from fastavro import parse_schema

from airflow_provider_sfevents.spark.avro.avro_validation import readable
from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from airflow_provider_sfevents.staging.payload_bounds import MOST_ITEMS_WITHOUT_BYTES
from tests.unit.spark.avro import shapes
from tests.unit.spark.conftest import encode

STRINGS = {"type": "array", "items": "string"}


def record(*kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"F{index}", "type": kind} for index, kind in enumerate(kinds)]
    schema = {
        "type": "record",
        "name": "X__e",
        "namespace": "com.sforce.eventbus",
        "fields": fields,
    }
    parsed: dict[str, Any] = parse_schema(schema)
    return parsed


EVERYTHING = record(
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "bytes",
    {"type": "fixed", "name": "Two", "size": 2},
    {"type": "enum", "name": "Size", "symbols": ["S", "L"]},
    STRINGS,
    {"type": "map", "values": "long"},
    ["null", {"type": "record", "name": "Inner", "fields": [{"name": "A", "type": "string"}]}],
    ["null", "Inner"],
    ["string", "com.sforce.eventbus.Size"],
    {"type": "long", "logicalType": "timestamp-millis"},
)
VALUES = [
    *(None, True, -1, 2**63 - 1, 1.5, 1.5, "ä" * 100, b"\xff", b"ab", "L"),
    *(["a", ""], {"k": -(2**63)}, {"A": "x"}, {"A": ""}, "text", 0),
]


def test_every_kind_of_value_is_walked_through() -> None:
    """A value of each kind is valid, and invalid with a byte less or more."""
    payload = encode(EVERYTHING, {f"F{index}": value for index, value in enumerate(VALUES)})

    assert readable(EVERYTHING, [payload, payload[:-1], payload + b"\x00", payload]) == [0, 3]


def test_no_payloads_and_payloads_of_nothing() -> None:
    """A record without fields is valid with no bytes at all."""
    assert readable(EVERYTHING, []) == []
    assert readable(record(), [b"", b"\x00"]) == [0]


@pytest.mark.parametrize(
    ("kind", "payload", "leads"),
    [
        (["null", "string"], b"\x04", False),
        (["null", "string"], b"\x01", False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x00", True),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", False),
        ("boolean", b"\x01", True),
        ("boolean", b"\x02", False),
        ("string", b"\x01", False),
        ("string", b"\x06ab", False),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", False),
        ("long", b"\xff" * 9 + b"\x01", True),
        ("long", b"\xff" * 10 + b"\x01", False),
        ("long", b"\x80\x00", True),
        ("int", b"\xff\xff\xff\xff\x0f", True),
        ("int", b"\x80\x80\x80\x80\x10", False),
        (STRINGS, b"\x02\x02a\x00", True),
        (STRINGS, b"\x01\x04\x02a\x00", True),
        (STRINGS, b"\x02\x02a\x04\x02b\x02c\x00", True),
        (STRINGS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02a\x00", False),
        (STRINGS, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x02a\x00", False),
        (STRINGS, b"", False),
    ],
)
def test_what_the_format_allows(kind: Any, payload: bytes, leads: bool) -> None:
    """Impossible indexes, lengths and counts are invalid, and other payloads are not affected."""
    neighbour = {"string": b"\x02a", "long": b"\x02", "int": b"\x02", "boolean": b"\x00"}.get(
        kind if isinstance(kind, str) else "", b"\x00"
    )

    found = readable(record(kind), [neighbour, payload, neighbour])

    assert found == ([0, 1, 2] if leads else [0, 2])


def many(items: int) -> bytes:
    """The count of a list, without its end."""
    return encode(record("long"), {"F0": items})


MOST = MOST_ITEMS_WITHOUT_BYTES
PAIR = {"type": "record", "name": "Pair", "fields": [{"name": "A", "type": "null"}]}


@pytest.mark.parametrize("item", ["null", PAIR, {"type": "fixed", "name": "Nothing", "size": 0}])
@pytest.mark.parametrize(
    ("payload", "leads"),
    [
        (b"\x00", True),
        (many(MOST) + b"\x00", True),
        (many(MOST - 1) + many(1) + b"\x00", True),
        (many(-MOST) + b"\x00\x00", True),
        (many(MOST) + b"\x00\x00", False),
        (many(MOST), False),
        (many(MOST + 1) + b"\x00", False),
        (many(MOST) + many(1) + b"\x00", False),
        (many(2**20) + b"\x00", False),
        (many(2**63 - 1) + b"\x00", False),
        (many(-(2**63)) + b"\x00\x00", False),
    ],
)
def test_items_that_take_no_bytes_are_counted(item: Any, payload: bytes, leads: bool) -> None:
    """Items without bytes are counted per payload, over all its lists."""
    full = many(MOST) + b"\x00"
    schema = record({"type": "array", "items": item})

    assert readable(schema, [full, payload, full]) == ([0, 1, 2] if leads else [0, 2])


def test_items_that_take_no_bytes_are_counted_in_lists_of_lists() -> None:
    """Items without bytes are counted over the inner lists of a payload."""
    schema = record({"type": "array", "items": {"type": "array", "items": "null"}})
    half = many(MOST // 2) + b"\x00"

    assert readable(schema, [many(lists) + half * lists + b"\x00" for lists in (2, 3)]) == [0]


@pytest.mark.parametrize("seed", range(4))
def test_it_tells_what_can_be_read_from_what_cannot(seed: int) -> None:
    """Every intact payload is valid, and none that the reference cannot read."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    whole = [shapes.event(chance, number, "account")[1] for number in range(300)]
    spoiled = [shapes.spoiled(chance, "account", payload)[1] for payload in whole]
    decoder = Reference(json.dumps(shapes.ACCOUNT), ())
    _, _, reasons = decoder.decode_all(spoiled)
    unreadable = [
        index
        for index, reason in reasons.items()
        if "UTF-8" not in reason and "Fields:" not in reason
    ]

    found = readable(parse_schema(shapes.ACCOUNT), [*spoiled, *whole])

    assert len(unreadable) > 50
    assert set(found).isdisjoint(unreadable)
    assert found[-300:] == list(range(300, 600))
