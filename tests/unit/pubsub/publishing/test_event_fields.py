"""Values that the fields of an event take."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from typing_extensions import override

from airflow_provider_sfevents.pubsub.publishing.event_fields import abridged, fields_of, fit

DAY = 86_400_000
NOON = 1_769_860_800_000  # 2026-01-31T12:00:00Z


def schema(*fields: tuple[str, Any, str]) -> str:
    """A schema with one field: name, type, and the type that `doc` notes."""
    made = [
        {"name": name, "type": ["null", kind], "doc": f"Data:{meaning}:00N000000000001"}
        if meaning
        else {"name": name, "type": ["null", kind]}
        for name, kind, meaning in fields
    ]
    return json.dumps({"type": "record", "name": "E__e", "fields": made})


FIELDS = {
    field.name: field
    for field in fields_of(
        schema(
            ("Text", "string", "Text"),
            ("Double", "double", "Currency"),
            ("Int", "int", "Integer"),
            ("Flag", "boolean", "Boolean"),
            ("DateTime", "long", "DateTime"),
            ("Date", "long", "DateOnly"),
            ("Time", "long", "TimeOnly"),
            ("Bare", "long", ""),
            ("Address", {"type": "record", "name": "Address", "fields": []}, "Address"),
        )
    )
}


class _Lines:
    """A value whose `repr` has several lines, as a DataFrame's has."""

    @override
    def __repr__(self) -> str:
        return "a\nb"


def mistakes(record: Any) -> list[str]:
    return [str(mistake) for mistake in fit(record, FIELDS, {})[1]]


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("Double", Decimal("0.1"), 0.1),
        ("Double", 7, 7.0),
        ("Double", 2**53, 2.0**53),
        ("Double", 2**60, 2.0**60),
        ("Double", Decimal("12.500000000000000000"), 12.5),
        ("Int", 5.0, 5),
        ("Int", Decimal(5), 5),
        ("DateTime", datetime(2026, 1, 31, 12, tzinfo=UTC), NOON),
        ("DateTime", datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
        ("DateTime", "2026-01-31T12:00:00Z", NOON),
        ("DateTime", "2026-01-31T14:00:00.5+02:00", NOON + 500),
        ("DateTime", NOON, NOON),
        ("DateTime", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1000),
        ("Date", date(1970, 1, 2), DAY),
        ("Date", "1970-01-02", DAY),
        ("Date", datetime(1970, 1, 2, tzinfo=UTC), DAY),
        ("Time", time(0, 1, 2, 3000), 62_003),
        ("Time", "00:01:02.003", 62_003),
        ("Time", "00:01:02.003Z", 62_003),
        ("Time", time(0, 1, tzinfo=UTC), 60_000),
        ("Date", 2 * DAY, 2 * DAY),
        ("Bare", date(1970, 1, 2), DAY),
        ("Bare", time(0, 0, 1), 1000),
        ("Text", "", ""),
        ("Flag", False, False),
        ("Address", None, None),
    ],
)
def test_values_that_fit(field: str, value: Any, stored: Any) -> None:
    """Values fit as Python types, as ISO 8601, or in the schema's own form."""
    values, wrong = fit({field: value}, FIELDS, {})
    assert wrong == []
    assert values[field] == stored
    assert type(values[field]) is type(stored)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("Text", 7, "it must be text"),
        ("Text", "\ud800", "without lone surrogates"),
        ("Double", "7", "it must be a number"),
        ("Double", True, "it must be a number"),
        ("Double", float("nan"), "a finite number"),
        ("Double", 10**400, "a finite number that a double holds"),
        ("Double", Decimal("sNaN"), "a finite number"),
        ("Double", 2**53 + 1, "a number that a double holds exactly"),
        ("Double", Decimal("12345678901234567.89"), "a number that a double holds exactly"),
        ("Int", 2**31, "from -2147483648 to 2147483647"),
        ("Int", 1.5, "a whole number"),
        ("Int", float("inf"), "a whole number"),
        ("Int", True, "a whole number"),
        ("Flag", 1, "true or false"),
        ("Flag", "true", "true or false"),
        ("DateTime", datetime(2026, 1, 31), "with its time zone"),  # noqa: DTZ001 - what is refused
        ("DateTime", "2026-01-31", "with its time zone"),
        ("DateTime", "yesterday", "ISO 8601"),
        ("DateTime", date(2026, 1, 31), "a time with its time zone"),
        ("DateTime", 2**63, "a whole number from"),
        ("Date", datetime(2026, 1, 31, 1, tzinfo=UTC), "this is a time of day besides"),
        ("Date", 12_345, "this is a time of day besides"),
        ("Date", 1.5, "it must be a date"),
        ("Date", "2026-02-30", "it must be a date"),
        ("Time", "12:00:00+02:00", "a time of day in UTC"),
        ("Time", time(12, tzinfo=timezone(timedelta(hours=2))), "a time of day in UTC"),
        ("Time", 5.5, "a time of day (a time, ISO 8601"),
        ("Time", DAY, f"from 0 to {DAY - 1}"),
        ("Time", -1, f"from 0 to {DAY - 1}"),
        ("Time", datetime(2026, 1, 31, tzinfo=UTC), "a time of day"),
        ("Bare", "2026-01-31", "a time, or a whole number of milliseconds"),
        ("Address", {"City": "Porto"}, "cannot be published"),
    ],
)
def test_values_that_do_not_fit(field: str, value: Any, said: str) -> None:
    """A mistake names the field, the value and the expectation; no value is rounded or guessed."""
    [mistake] = mistakes({field: value})
    assert mistake.startswith(f"{field} is ")
    assert said in mistake


def test_what_is_required_and_missing() -> None:
    """A missing value of a field without null and default is a mistake."""
    required = json.dumps(
        {"type": "record", "name": "E", "fields": [{"name": "Must", "type": "string"}]}
    )
    fields = {field.name: field for field in fields_of(required)}
    assert [str(one) for one in fit({}, fields, {})[1]] == ["Must is missing; it must be text"]
    assert fit({"Must": None}, fields, {"Must": "filled"}) == ({"Must": "filled"}, [])


def test_a_misspelt_field_is_named_with_its_like() -> None:
    """An unknown field is named with the most similar one, ignoring case."""
    assert mistakes({"Txet": "a", "DATETIME": NOON, "Nowhere__c": 1}) == [
        "'Txet' is no field of the event; is it Text?",
        "'DATETIME' is no field of the event; is it DateTime?",
        "'Nowhere__c' is no field of the event",
    ]


def test_a_value_is_shown_in_short() -> None:
    """A message shows any value shortened, in one line."""
    assert abridged("short") == "'short'"
    assert abridged(["x"] * 10_000).endswith("...")
    assert "\n" not in abridged(_Lines())
    assert max(len(abridged("x" * 10**7)), len(abridged(b"x" * 10**7))) < 100
