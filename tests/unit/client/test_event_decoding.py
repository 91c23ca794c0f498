"""Payloads of the Pub/Sub API in the JSON form of the Streaming API."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from airflow_provider_sfevents.client.event_decoding import MessagePayloadDecoder

ORDER = {
    "type": "record",
    "name": "Order__e",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
        {"name": "Day__c", "type": ["null", "long"], "doc": "Data:DateOnly:00N1"},
        {"name": "At__c", "type": ["null", "long"], "doc": "Data:TimeOnly:00N2"},
        {"name": "City__c", "type": ["null", "string"], "doc": "Data:Text:00N3"},
        {"name": "Big__c", "type": ["null", "long"], "doc": "Data:Integer:00N4"},
    ],
}
_LIST = {"type": "array", "items": "string"}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [
        {"name": "Street", "type": ["null", "string"]},
        {"name": "City", "type": ["null", "string"]},
    ],
}
CHANGE = {
    "type": "record",
    "name": "AccountChangeEvent",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {
            "name": "ChangeEventHeader",
            "type": {
                "type": "record",
                "name": "ChangeEventHeader",
                "fields": [
                    {"name": "changeType", "type": "string"},
                    {"name": "nulledFields", "type": _LIST},
                    {"name": "diffFields", "type": _LIST},
                    {"name": "changedFields", "type": _LIST},
                ],
            },
        },
        {"name": "Name", "type": ["null", "string"]},
        {"name": "Phone", "type": ["null", "string"]},
        {"name": "Notes", "type": ["null", "string"]},
        {"name": "BillingAddress", "type": ["null", ADDRESS]},
        {"name": "ShippingAddress", "type": ["null", "Address"]},
    ],
}


def encoded(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def decoded(schema: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    return MessagePayloadDecoder(json.dumps(schema)).decode(encoded(schema, record))


def test_times_are_iso_text() -> None:
    """Date-times have milliseconds and Z, dates and times of day their own text."""
    record = {
        "CreatedDate": 1_491_767_911_517,
        "Day__c": 86_400_000,
        "At__c": 3_661_001,
        "City__c": None,
        "Big__c": 2**62,
    }
    assert decoded(ORDER, record) == {
        "CreatedDate": "2017-04-09T19:58:31.517Z",
        "Day__c": "1970-01-02",
        "At__c": "01:01:01.001Z",
        "City__c": None,
        "Big__c": 2**62,
    }


def test_a_time_beyond_the_calendar_stays_a_number() -> None:
    """A publisher may set a time that no date has; it stays the number that was sent."""
    record = {"CreatedDate": 2**62, "Day__c": -(2**62), "At__c": -1}
    found = decoded(ORDER, record)
    assert (found["CreatedDate"], found["Day__c"], found["At__c"]) == (2**62, -(2**62), -1)


def test_a_change_has_field_names_and_changed_fields_alone() -> None:
    """Bitmaps become names; emptied fields are None, unchanged ones are left out."""
    header = {
        "changeType": "UPDATE",
        "nulledFields": ["0x4", "5-0x2"],
        "diffFields": ["0x8"],
        "changedFields": ["0xe", "5-0x3"],
    }
    record = {
        "ChangeEventHeader": header,
        "Name": "Acme",
        "Notes": "@@",
        "ShippingAddress": {"Street": "1 Main"},
    }
    assert decoded(CHANGE, record) == {
        "ChangeEventHeader": {
            "changeType": "UPDATE",
            "nulledFields": ["Phone", "ShippingAddress.City"],
            "diffFields": ["Notes"],
            "changedFields": [
                "Name",
                "Phone",
                "Notes",
                "ShippingAddress.Street",
                "ShippingAddress.City",
            ],
        },
        "Name": "Acme",
        "Phone": None,
        "Notes": {"diff": "@@"},
        "ShippingAddress": {"Street": "1 Main", "City": None},
    }


@pytest.mark.parametrize(
    ("cut", "reason"), [(-1, r"EOFError|IndexError"), (1, "beyond its schema")]
)
def test_a_payload_that_does_not_fit_is_refused(cut: int, reason: str) -> None:
    """A payload that ends early or has bytes left was written with another schema."""
    payload = encoded(ORDER, {"CreatedDate": 1, "Big__c": 2**62})
    with pytest.raises(ValueError, match=reason):
        MessagePayloadDecoder(json.dumps(ORDER)).decode(
            payload[:cut] if cut < 0 else payload + b"x"
        )


def test_a_bitmap_beyond_the_schema_is_refused() -> None:
    """A bit without a field means another schema, so no name is made up for it."""
    header = {"changeType": "U", "nulledFields": [], "diffFields": [], "changedFields": ["0x80"]}
    with pytest.raises(ValueError, match="bit 7"):
        decoded(CHANGE, {"ChangeEventHeader": header})


def test_a_schema_that_could_fill_the_memory_is_refused() -> None:
    """Lists whose items take no bytes are not decoded."""
    field = {"name": "Nulls", "type": {"type": "array", "items": "null"}}
    schema = {"type": "record", "name": "Bad__e", "fields": [field]}
    with pytest.raises(ValueError, match="memory"):
        MessagePayloadDecoder(json.dumps(schema))
