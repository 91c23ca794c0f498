"""Columns of an event table, derived from Spark's schema."""

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

from airflow_provider_sfevents.spark.schema.field_types import FieldType
from airflow_provider_sfevents.spark.tables.columns_there import field_type

LONGS = FieldType(kind="array", item=FieldType(kind="long"))


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
