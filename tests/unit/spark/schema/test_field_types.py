"""Avro schemas to column types."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from airflow_provider_sfevents.spark.schema.field_types import (
    FieldType,
    UntypeableError,
    event_type,
    quoted,
    record_fields,
)
from tests.unit.spark.avro.shapes import event_schema

record = partial(event_schema, "X__e")

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [
        {"name": "Street", "type": ["null", "string"]},
        {"name": "Latitude", "type": ["null", "double"]},
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


def only(avro: Any, doc: str = "") -> FieldType:
    fields = record_fields(record({"name": "Name", "type": avro, "doc": doc}))
    return fields[0][1]


@pytest.mark.parametrize(
    ("avro", "doc", "sql"),
    [
        ("long", "CreatedDate:DateTime", "timestamp"),
        (["null", "long"], "Data:DateTime:00N000000000001", "timestamp"),
        (["null", "long"], "Data:DateOnly:00N000000000001", "date"),
        (["null", "long"], "Data:Birthday", "date"),
        (["null", "long"], "Data:TimeOnly:00N000000000001", "string"),
        (["null", "long"], "Data:Integer", "bigint"),
        (["null", "long"], "", "bigint"),
        (["null", "int"], "Data:Integer", "int"),
        (["null", "double"], "Data:Currency:00N000000000001", "double"),
        (["null", "float"], "", "double"),
        (["null", "boolean"], "Data:Boolean", "boolean"),
        (["null", "string"], "Data:Text:00N000000000001", "string"),
        (["null", "string"], "Data:DateOnly", "string"),
        (["null", "bytes"], "", "binary"),
        ({"type": "fixed", "name": "F", "size": 4}, "", "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "", "string"),
        ({"type": "string"}, "", "string"),
        ("null", "", "string"),
        ({"type": "array", "items": "string"}, "", "array<string>"),
        ({"type": "map", "values": ["null", "long"]}, "", "map<string, bigint>"),
        (["null", ADDRESS], "Data:Address", "struct<`Street`: string, `Latitude`: double>"),
        (
            ["null", "string", PERSON],
            "Data:Switchable_PersonName",
            "struct<`FirstName`: string, `LastName`: string, `Name`: string>",
        ),
        (["null", "long", "string"], "", "string"),
    ],
)
def test_each_avro_type_has_one_column_type(avro: Any, doc: str, sql: str) -> None:
    """The type follows from Avro's, and for times from the field's `doc`."""
    assert only(avro, doc).sql() == sql


def test_a_named_type_may_be_used_again_by_its_name() -> None:
    """A field may refer to a type that an earlier field has defined."""
    fields = record_fields(
        record(
            {"name": "Billing", "type": ["null", ADDRESS]},
            {"name": "Shipping", "type": ["null", "Address"]},
        )
    )

    assert fields[0][1] == fields[1][1]


def test_the_commit_timestamp_of_a_change_event_is_an_instant() -> None:
    """The commit time of a change event is a timestamp, although it has no `doc`."""
    header = {
        "type": "record",
        "name": "ChangeEventHeader",
        "fields": [
            {"name": "commitTimestamp", "type": "long"},
            {"name": "commitNumber", "type": "long"},
        ],
    }

    assert only(header).sql() == "struct<`commitTimestamp`: timestamp, `commitNumber`: bigint>"


def test_members_are_counted_as_the_record_has_them() -> None:
    """The added member for text is not counted in bitmaps."""
    assert only(["null", "string", PERSON]).member_names() == ("FirstName", "LastName")


def test_the_text_of_a_name_gets_another_name_where_the_record_has_one_like_it() -> None:
    """The member for text gets another name if the record has one of its name."""
    clash = {"type": "record", "name": "R", "fields": [{"name": "name", "type": "string"}]}

    assert only(["string", clash]).sql() == "struct<`name`: string, `Name_text`: string>"


def test_names_that_differ_only_in_case_are_refused() -> None:
    """Two names that differ only in case are refused, as SQL engines take them for one."""
    with pytest.raises(UntypeableError, match="Foo__c and foo__c differ only in case"):
        record_fields(record({"name": "Foo__c", "type": "int"}, {"name": "foo__c", "type": "int"}))


def test_a_record_that_contains_itself_is_refused() -> None:
    """A record that contains itself is refused."""
    with pytest.raises(UntypeableError, match="contains itself"):
        record_fields(record({"name": "Next", "type": ["null", "X__e"]}))


def test_a_record_without_members_is_kept_as_json() -> None:
    """A record without members is JSON, as Parquet has no empty struct."""
    assert only({"type": "record", "name": "Empty", "fields": []}).kind == "json"


def test_the_event_type_is_the_records_name() -> None:
    """The event type is the record's name without its namespace."""
    assert event_type('{"type": "record", "name": "Order__e", "fields": []}') == "Order__e"
    assert (
        event_type('{"type": "record", "name": "com.sforce.eventbus.Order__e", "fields": []}')
        == "Order__e"
    )


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '"string"', '{"type": "enum", "name": "E"}', '{"type": "record"}'],
)
def test_what_is_no_record_has_no_event_type(text: str) -> None:
    """A text that is no record is an error."""
    with pytest.raises(ValueError, match=r"."):
        event_type(text)


def test_quoting_survives_any_name() -> None:
    """A backtick in a name is doubled."""
    assert quoted("a`b") == "`a``b`"
