"""Decoded records to Arrow columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_sfevents.spark.avro.arrow_columns import build_columns
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

PERSON = FieldType(
    kind="struct",
    members=(("FirstName", FieldType(kind="string")), ("Name", FieldType(kind="string"))),
    text_member="Name",
)


def build(kind: FieldType, *values: Any) -> list[Any]:
    arrays, fitting, reasons = build_columns(
        [{"A": value} for value in values], [Column(name="a", field="A", type=kind)]
    )
    assert reasons == {}
    assert fitting == list(range(len(values)))
    values_back: list[Any] = arrays[0].to_pylist()
    return values_back


@pytest.mark.parametrize(
    ("kind", "value", "lands"),
    [
        ("timestamp", 1_685_217_197_123, datetime(2023, 5, 27, 19, 53, 17, 123000, tzinfo=UTC)),
        ("timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("date", 1_793_491_200_000, date(2026, 11, 1)),
        ("date", -86_400_000, date(1969, 12, 31)),
        ("date", -1, date(1969, 12, 31)),
        ("time", 0, "00:00:00.000"),
        ("time", 86_399_999, "23:59:59.999"),
        ("long", 1_756_817_292_878_872_579, 1_756_817_292_878_872_579),
        ("double", 0.1, 0.1),
        ("double", 3, 3.0),
        ("boolean", False, False),
        ("string", "ä", "ä"),
        ("json", {"a": [1]}, '{"a": [1]}'),
    ],
)
def test_each_kind_of_value_lands_as_itself(kind: Any, value: Any, lands: Any) -> None:
    """Times are UTC, 64-bit numbers whole, and null is null for every kind."""
    assert build(FieldType(kind=kind), value, None) == [lands, None]


def test_a_name_that_is_text_or_a_record_is_one_struct() -> None:
    """Text goes into its own member, a record into the others."""
    assert build(PERSON, "Acme", {"FirstName": "Ada"}, None) == [
        {"FirstName": None, "Name": "Acme"},
        {"FirstName": "Ada", "Name": None},
        None,
    ]


def test_members_missing_in_one_schema_are_null() -> None:
    """A record of an older schema fits the columns of a newer one."""
    arrays, _, _ = build_columns([{}], [Column(name="a", field="A", type=PERSON)])

    assert arrays[0].to_pylist() == [None]


def test_arrays_and_maps_of_anything() -> None:
    """Items of arrays and maps are converted as columns are, and null differs from empty."""
    instants = FieldType(kind="array", item=FieldType(kind="timestamp"))
    people = FieldType(kind="array", item=PERSON)
    days = FieldType(kind="map", item=FieldType(kind="date"))

    assert build(instants, [0], None, []) == [[datetime(1970, 1, 1, tzinfo=UTC)], None, []]
    assert build(people, ["Acme", None]) == [[{"FirstName": None, "Name": "Acme"}, None]]
    assert build(days, {"a": 0}, None) == [[("a", date(1970, 1, 1))], None]
    assert build(FieldType(kind="array", item=FieldType(kind="string")), ["x"]) == [["x"]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", 253_402_300_800_000),
        ("timestamp", 2**63 - 1),
        ("date", -62_135_596_800_001),
        ("time", 86_400_000),
        ("time", -1),
        ("int", 2**31),
    ],
)
def test_a_value_its_column_cannot_hold_is_that_records_matter(kind: Any, value: int) -> None:
    """A value that does not fit leaves out its record alone; the reason names the field."""
    columns = [Column(name="a", field="A", type=FieldType(kind=kind))]

    arrays, fitting, reasons = build_columns([{"A": 1}, {"A": value}, {"A": None}], columns)

    assert fitting == [0, 2]
    assert len(arrays[0]) == 2
    assert list(reasons) == [1]
    assert "field A does not fit" in reasons[1]
    assert str(value) in reasons[1]


@pytest.mark.parametrize(
    ("value", "lands"),
    [
        (0.1, "0.10"),
        (2.675, "2.68"),
        (2.665, "2.66"),
        (-0.005, "0.00"),
        (12, "12.00"),
        (1e-300, "0.00"),
        (9999.994, "9999.99"),
    ],
)
def test_a_decimal_is_made_of_a_doubles_shortest_text(value: float, lands: str) -> None:
    """A decimal is the double's shortest text, rounded half to even; ints are exact."""
    kind = FieldType(kind="decimal", precision=6, scale=2)

    assert build(kind, value, None) == [Decimal(lands), None]


@pytest.mark.parametrize("value", [9999.995, 10_000, -1e300, float("nan"), float("inf")])
def test_a_number_a_decimal_cannot_hold_is_that_records_matter(value: float) -> None:
    """A number that the decimal cannot hold leaves out its record alone."""
    kind = FieldType(kind="decimal", precision=6, scale=2)

    arrays, fitting, reasons = build_columns(
        [{"A": 1.5}, {"A": value}], [Column(name="a", field="A", type=kind)]
    )

    assert arrays[0].to_pylist() == [Decimal("1.50")]
    assert fitting == [0]
    assert f"{value!r} is no finite number that decimal(6,2) can hold" in reasons[1]
