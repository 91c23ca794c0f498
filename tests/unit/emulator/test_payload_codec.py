"""Values are unchanged after encoding and decoding."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader

from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.bus.payload_codec import Codec
from airflow_provider_sfevents.emulator.errors import EmulatorError

FIELDS = {
    "Text__c": "Text",
    "Number__c": "Double",
    "Flag__c": "Boolean",
    "At__c": "DateTime",
    "Day__c": "DateOnly",
    "Time__c": "TimeOnly",
    "Place__c": "Address",
    "Who__c": "Switchable_PersonName",
}
SCHEMA = avro_schemas.platform_event_schema("X__e", FIELDS, FieldTypes())
CREATED = {"CreatedDate": 0, "CreatedById": "005"}


def _raw(values: dict[str, Any]) -> Any:
    """Decode a payload with the schema alone."""
    return schemaless_reader(
        BytesIO(Codec(SCHEMA).encode({**CREATED, **values})), parse_schema(SCHEMA), None
    )


@pytest.mark.parametrize(
    ("field", "value", "wire"),
    [
        ("Text__c", "ü", "ü"),
        ("Number__c", 3, 3.0),
        ("Number__c", Decimal("12.50"), 12.5),
        ("Number__c", "12.5", 12.5),
        ("Flag__c", True, True),
        ("Flag__c", "false", False),
        ("At__c", datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC), 1767323045678),
        (
            "At__c",
            datetime(2026, 1, 2, 4, 4, 5, 678_000, tzinfo=timezone(timedelta(hours=1))),
            1767323045678,
        ),
        ("At__c", "2026-01-02T03:04:05.678Z", 1767323045678),
        ("At__c", 1767323045678, 1767323045678),
        ("At__c", datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), -1),
        ("Day__c", date(2026, 1, 2), 1767312000000),
        ("Day__c", "1969-12-31", -86_400_000),
        ("Time__c", time(1, 2, 3), 3_723_000),
        ("Time__c", "01:02:03", 3_723_000),
        ("Who__c", "A business", "A business"),
        (
            "Who__c",
            {"LastName": "Kaya"},
            {"Salutation": None, "FirstName": None, "LastName": "Kaya"},
        ),
    ],
)
def test_values_on_the_wire(field: str, value: object, wire: object) -> None:
    """Dates, times, numbers and text have the schema's types; text is parsed by them."""
    assert _raw({field: value})[field] == wire


def test_fields_not_given_are_null() -> None:
    """A missing field of a platform event is null."""
    assert all(_raw({})[name] is None for name in FIELDS)


def test_decoding_shows_times_as_text() -> None:
    """Decoded times are ISO-8601 text."""
    codec = Codec(SCHEMA)
    seen = codec.decode(
        codec.encode({**CREATED, "At__c": 1, "Day__c": "2026-01-02", "Time__c": "01:02:03"})
    )
    assert (seen["At__c"], seen["Day__c"], seen["Time__c"]) == (
        "1970-01-01T00:00:00.001+00:00",
        "2026-01-02",
        "01:02:03",
    )


def test_a_time_that_python_does_not_have_is_its_number() -> None:
    """Salesforce's times go beyond the year 9999."""
    codec = Codec(SCHEMA)
    assert codec.decode(codec.encode({**CREATED, "At__c": 2**60}))["At__c"] == 2**60


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Nope__c": 1}, "no field 'Nope__c'"),
        ({"Place__c": {"Planet": "Mars"}}, "Place__c: no member 'Planet'"),
        (
            {"Day__c": "tomorrow"},
            "Day__c: 'tomorrow' is not of type DateOnly; write it as ISO-8601",
        ),
        ({"Number__c": "many"}, "Number__c: 'many' is not of type double"),
        ({"Text__c": 5}, "Text__c"),
        ({"CreatedDate": None}, "does not fit its schema"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, Any], message: str) -> None:
    """A wrong field or value is refused with its name."""
    with pytest.raises(EmulatorError, match=message):
        Codec(SCHEMA).encode({**CREATED, **values})


@pytest.mark.parametrize(
    "payload", [b"", b"\xff" * 40, b"\0\0" + b"\0" * 8 + b"more"], ids=["empty", "noise", "longer"]
)
def test_rubbish_does_not_decode(payload: bytes) -> None:
    """Bytes of another schema are refused."""
    with pytest.raises(EmulatorError, match="not a payload of X__e"):
        Codec(SCHEMA).decode(payload)
