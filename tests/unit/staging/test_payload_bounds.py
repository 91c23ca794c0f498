"""Schemas by which a few bytes can claim more items than the memory holds."""

from __future__ import annotations

from typing import Any

import pytest
from fastavro import parse_schema

from airflow_provider_sfevents.staging.payload_bounds import has_items_without_bytes, is_bounded

NULLS: Any = {"type": "array", "items": "null"}
NOTHING: Any = {"type": "fixed", "name": "Nothing", "size": 0}


def record(name: str, *kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"F{at}", "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


@pytest.mark.parametrize(
    "kind",
    [
        NULLS,
        array(NOTHING),
        array(record("Empty")),
        array(record("Nulls", "null", NOTHING)),
        array({"type": "null"}),
        ["string", NULLS],
        array(array("null")),
        {"type": "map", "values": NULLS},
        record("Inner", "long", NULLS),
    ],
)
def test_a_list_of_items_without_bytes_is_found(kind: Any) -> None:
    """A list whose items take no bytes is found anywhere in a schema."""
    schema = parse_schema(record("X__e", "long", kind))
    assert has_items_without_bytes(schema)
    assert not is_bounded(schema)


def test_a_named_type_is_known_where_only_its_name_is_given() -> None:
    """A reference to a named type has the size of the type's definition."""
    schema = parse_schema(record("X__e", ["null", NOTHING], array("Nothing")))
    assert has_items_without_bytes(schema)


@pytest.mark.parametrize(
    "kind",
    [
        "null",
        NOTHING,
        array("string"),
        array(["null", "string"]),
        array({"type": "fixed", "name": "Two", "size": 2}),
        array({"type": "enum", "name": "One", "symbols": ["A"]}),
        array(record("Half", "null", "boolean")),
        array(array("long")),
        {"type": "map", "values": "null"},
    ],
)
def test_items_that_take_bytes_are_bounded_by_the_payload(kind: Any) -> None:
    """Items with a key, a branch or a count take bytes, so the payload bounds them."""
    assert is_bounded(parse_schema(record("X__e", kind)))


def test_a_record_within_itself_is_not_bounded() -> None:
    """A recursive record is not bounded; a type that is used twice is."""
    assert not is_bounded(parse_schema(record("X__e", ["null", "X__e"])))
    twice = record("X__e", record("Inner", "string"), ["null", "Inner"])
    assert is_bounded(parse_schema(twice))
