"""Channel filters are parsed, checked against the schema and applied to events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_sfevents.emulator.bus.avro_schemas import change_event_schema
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.org.channels import channel_filters
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError

FIELDS = {
    "Name": "Text",
    "Phone": "Phone",
    "Stage__c": "Picklist",
    "OwnerId": "Lookup",
    "Amount__c": "Currency",
    "Units__c": "Integer",
    "Active__c": "Checkbox",
    "Due__c": "Date",
    "LastModifiedDate": "DateTime",
    "Notes__c": "LongTextArea",
    "BillingAddress": "Address",
}
SCHEMA = change_event_schema("Deal__c", FIELDS, FieldTypes(), snapshot=True)
NOW = datetime(2026, 5, 20, 15, 30, tzinfo=UTC)
DAY = 86_400_000
MIDNIGHT = 1_779_235_200_000  # of that day
DEAL: dict[str, Any] = {
    "Name": "Nord",
    "Phone": None,
    "Stage__c": "Won",
    "OwnerId": "005gL000000AbcdQAC",
    "Amount__c": 12.5,
    "Units__c": 3,
    "Active__c": True,
    "Due__c": MIDNIGHT,
    "LastModifiedDate": MIDNIGHT - 3 * DAY,
    "BillingAddress": {"City": "Porto", "Country": None},
}


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("Name = 'Nord'", True),
        ("Name = 'nord'", False),
        ("LOWER(Name) = 'nord'", True),
        ("name != 'Nord'", False),
        ("Name IN ('Sul', 'Nord')", True),
        ("Name NOT IN ('Sul', 'Nord')", False),
        ("Name LIKE 'No%'", True),
        ("Name LIKE '%or'", False),
        ("Name LIKE 'N.rd'", False),
        ("LOWER(Name) LIKE '%OR%'", False),
        ("Phone = null", True),
        ("Phone != null", False),
        ("Phone != '1'", True),
        ("Phone LIKE '%'", False),
        ("Stage__c IN ('Won')", True),
        ("OwnerId = '005gL000000Abcd'", True),
        ("OwnerId NOT IN ('005gL000000AbcdQAC')", False),
        ("Amount__c > 12", True),
        ("Amount__c >= 12.5 AND Amount__c <= 12.5", True),
        ("Units__c < 3", False),
        ("Active__c = true", True),
        ("Active__c != true", False),
        ("Due__c = 2026-05-20", True),
        ("Due__c = TODAY", True),
        ("Due__c = YESTERDAY", False),
        ("Due__c != TOMORROW", True),
        ("LastModifiedDate = LAST_N_DAYS:3", True),
        ("LastModifiedDate = last_n_days:2", False),
        ("LastModifiedDate = NEXT_N_DAYS:9", False),
        ("LastModifiedDate = 2026-05-17T00:00:00Z", True),
        ("BillingAddress.City = 'Porto' AND BillingAddress.Country = null", True),
        ("Name = 'Sul' OR (Amount__c > 100 OR Units__c = 3)", True),
        ("Name = 'Nord' AND (Amount__c > 100 OR Units__c = 4)", False),
    ],
)
def test_events_that_pass(text: str, passes: bool) -> None:
    """Each operator works for each field type."""
    assert channel_filters.read(text, SCHEMA).lets_through(DEAL, NOW) is passes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Nope = 'x'", "no field 'Nope'"),
        ("IsDeleted = false", "no field 'IsDeleted'"),
        ("ChangeEventHeader.changeType = 'CREATE'", "no field"),
        ("BillingAddress = 'x'", "no field 'BillingAddress'"),
        ("Owner.Name = 'x'", "no field 'Owner.Name'"),
        ("Name > 'A'", "> cannot be used with Name"),
        ("Amount__c IN (1, 2)", "IN cannot be used with Amount__c"),
        ("Stage__c LIKE 'W%'", "LIKE cannot be used with Stage__c"),
        ("Due__c > 2026-01-01", "> cannot be used with Due__c"),
        ("Active__c IN (true)", "IN cannot be used with Active__c"),
        ("Notes__c = 'x'", "= cannot be used with Notes__c"),
        ("Amount__c = '5'", "not a value for Amount__c"),
        ("Name = 5", "not a value for Name"),
        ("Due__c = 2026-05-20T00:00:00Z", "not a value for Due__c"),
        ("Due__c = 2026-13-40", "invalid date"),
        ("Due__c = THIS_FISCAL_YEAR", "names no days"),
        ("Name = TODAY", "not a value for Name"),
        ("LOWER(Stage__c) = 'won'", "LOWER"),
        ("NOT Name = 'x'", "NOT is not supported"),
        ("Name = Phone", "'PHONE' is not a value"),
        ("ISBLANK(Name)", "unexpected token"),
        ("Name = 'a' AND Name = 'b' OR Name = 'c'", "unexpected token"),
        ("WHERE Name = 'a'", "unexpected token"),
        ("", "unexpected token"),
    ],
)
def test_filters_that_are_refused(text: str, why: str) -> None:
    """An unsupported construct or unknown field is named in the refusal."""
    with pytest.raises(RecordRefusedError, match=why):
        channel_filters.read(text, SCHEMA)


def test_fields_a_filter_looks_at() -> None:
    """A filter's fields are added to updates and deletions; a compound as a whole."""
    asked = channel_filters.read(
        "Name = 'a' AND BillingAddress.City != 'b' AND name != 'c'", SCHEMA
    )
    assert asked.fields == ("Name", "BillingAddress")
