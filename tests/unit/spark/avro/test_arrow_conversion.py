"""Columns that the accelerator can make."""

from __future__ import annotations

import json

import pytest

from airflow_provider_sfevents.spark.avro.arrow_conversion import left_to_reference, unfit
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType, Kind

TEXT = FieldType(kind="string")
PERSON = FieldType(kind="struct", members=(("FirstName", TEXT),))
PERSON_OR_TEXT = FieldType(
    kind="struct", members=(("FirstName", TEXT), ("Name", TEXT)), text_member="Name"
)
MONEY = FieldType(kind="decimal", precision=10, scale=2)


def of(kind: Kind) -> FieldType:
    return FieldType(kind=kind)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (TEXT, TEXT),
        (of("int"), of("long")),
        (of("int"), of("double")),
        (of("long"), of("double")),
        (of("double"), MONEY),
        (of("long"), MONEY),
        (of("date"), of("date")),
        (TEXT, PERSON_OR_TEXT),
        (PERSON, PERSON_OR_TEXT),
        (PERSON_OR_TEXT, PERSON_OR_TEXT),
        (FieldType(kind="array", item=TEXT), FieldType(kind="array", item=TEXT)),
    ],
)
def test_what_it_can_make(own: FieldType, wanted: FieldType) -> None:
    """Each kind of column is made from itself and from the kinds that widen to it."""
    assert unfit((("A", own),), [Column(name="a", field="A", type=wanted)]) == ""


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (of("binary"), of("binary")),
        (of("json"), of("json")),
        (of("long"), of("timestamp")),
        (TEXT, PERSON),
        (PERSON_OR_TEXT, PERSON),
        (FieldType(kind="map", item=TEXT), FieldType(kind="map", item=TEXT)),
        (FieldType(kind="array", item=of("long")), FieldType(kind="array", item=of("long"))),
        (
            FieldType(kind="struct", members=(("A", of("binary")),)),
            FieldType(kind="struct", members=(("A", of("binary")),)),
        ),
    ],
)
def test_what_it_leaves_to_the_reference(own: FieldType, wanted: FieldType) -> None:
    """The reason why a column needs the reference names the field."""
    assert "field A" in unfit((("A", own),), [Column(name="a", field="A", type=wanted)])


def test_a_list_of_items_without_bytes_is_left_to_the_reference() -> None:
    """Lists whose items take no bytes are left to the reference, which counts them first."""
    schema = {
        "type": "record",
        "name": "X__e",
        "fields": [
            {"name": "A", "type": "string"},
            {"name": "B", "type": {"type": "array", "items": "null"}},
        ],
    }
    columns = [Column(name="A", field="A", type=TEXT)]

    assert "items that take no bytes" in left_to_reference(json.dumps(schema), columns)
    assert left_to_reference(json.dumps({**schema, "fields": schema["fields"][:1]}), columns) == ""


def test_a_column_that_no_field_fills_is_easily_made() -> None:
    """A column without a field in the schema is null."""
    assert unfit((), [Column(name="a", field="", type=of("binary"))]) == ""
