"""Columns of a table without a record of them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.found_columns import columns_found, field_type, told
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

TEXT = FieldType(kind="string")
TIME = FieldType(kind="time")
LONG = FieldType(kind="long")
LONGS = FieldType(kind="array", item=FieldType(kind="long"))


def struct(*, text: str = "", **members: FieldType) -> FieldType:
    return FieldType(kind="struct", members=tuple(members.items()), text_member=text)


def test_columns_of_the_envelope_are_not_the_events() -> None:
    """Envelope columns are left out, and a renamed column has its field's name."""
    found = columns_found(
        {"batch_id": TEXT, "event_date": TEXT, "Size__c": LONG, "batch_id_": TEXT}
    )

    assert found == Recorded(
        columns=(
            Column(name="Size__c", field="Size__c", type=LONG),
            Column(name="batch_id_", field="batch_id", type=TEXT),
        ),
        found=True,
    )


def test_the_member_named_like_its_struct_is_taken_for_the_names_text() -> None:
    """The member for text is found by its name."""
    found = columns_found(
        {
            "Name": struct(LastName=TEXT, Name=TEXT),
            "Label": struct(Label=TEXT, Label_text=TEXT),
            "Place": struct(Place=LONG),
        }
    )

    assert [column.type.text_member for column in found.columns] == ["Name", "Label_text", ""]


def test_a_schema_tells_what_text_stands_for() -> None:
    """A schema tells which text is a time of day; other fields stay as found."""
    found = columns_found(
        {
            "At__c": TEXT,
            "Note__c": TEXT,
            "Size__c": LONG,
            "Slots": FieldType(kind="array", item=TEXT),
            "Office": struct(Opens=TEXT, Office=TEXT),
        }
    )
    schema = (
        ("at__c", TIME),
        ("Size__c", TEXT),
        ("Slots", FieldType(kind="array", item=TIME)),
        ("Office", struct(Opens=TIME, Office=TEXT)),
    )

    types = {column.name: column.type for column in told(found, [schema]).columns}

    assert types == {
        "At__c": TIME,
        "Note__c": TEXT,
        "Size__c": LONG,
        "Slots": FieldType(kind="array", item=TIME),
        "Office": struct(Opens=TIME, Office=TEXT),
    }


def test_what_is_on_record_counts_more_than_any_schema() -> None:
    """Recorded columns are not changed by a schema."""
    recorded = Recorded(columns=(Column(name="At__c", field="At__c", type=TEXT),))

    assert told(recorded, [(("At__c", TIME),)]) == recorded


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (TimestampType(), FieldType(kind="timestamp")),
        (DecimalType(18, 2), FieldType(kind="decimal", precision=18, scale=2)),
        (ArrayType(LongType()), LONGS),
        (MapType(StringType(), ArrayType(LongType())), FieldType(kind="map", item=LONGS)),
        (
            StructType([StructField("A", StringType())]),
            FieldType(kind="struct", members=(("A", FieldType(kind="string")),)),
        ),
        (FloatType(), None),
        (StructType([StructField("A", FloatType())]), None),
        (ArrayType(FloatType()), None),
    ],
    ids=lambda value: value.simpleString() if hasattr(value, "simpleString") else "",
)
def test_a_type_is_known_where_a_landing_makes_it(
    there: DataType, expected: FieldType | None
) -> None:
    """A column of a type that no landing makes is a user's own."""
    assert field_type(there) == expected
