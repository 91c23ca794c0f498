"""From records to payloads and requests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import ProducerEvent
from airflow_provider_sfevents.pubsub.publishing import encode, requests

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order__e",
        "fields": [
            {"name": "CreatedDate", "type": "long"},
            {"name": "CreatedById", "type": "string"},
            *(
                {"name": name, "type": ["null", kind], "default": None}
                for name, kind in (("Text__c", "string"), ("Number__c", "double"), ("Moment__c", "long"), ("Flag__c", "boolean"))
            ),
        ],
    }
)  # fmt: skip


def published(*records: dict[str, Any]) -> list[dict[str, Any]]:
    payloads = encode(
        records, SCHEMA, now=NOW, user_id="005gL000000XYZaQAO", topic="/event/Order__e"
    )
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    return [fastavro.schemaless_reader(BytesIO(payload), parsed, None) for payload in payloads]


def test_who_and_when_are_filled_in() -> None:
    """The schema demands both; a record that has none gets now and the user."""
    assert published({"Text__c": "a"}) == [
        {
            "CreatedDate": int(NOW.timestamp() * 1000),
            "CreatedById": "005gL000000XYZaQAO",
            "Text__c": "a",
            "Number__c": None,
            "Moment__c": None,
            "Flag__c": None,
        }
    ]


def test_who_and_when_may_be_given() -> None:
    """A record's own values stand."""
    own = published({"CreatedDate": 5, "CreatedById": "005x"})[0]
    assert (own["CreatedDate"], own["CreatedById"]) == (5, "005x")


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("Moment__c", datetime(1970, 1, 2, 0, 0, 0, 1000, tzinfo=UTC), 86_400_001),
        ("Moment__c", date(1970, 1, 3), 2 * 86_400_000),
        ("Moment__c", time(0, 1, 2, 3000), 62_003),
        ("Number__c", Decimal("12.5"), 12.5),
        ("Number__c", 12, 12.0),
        ("Flag__c", True, True),
        ("Text__c", None, None),
    ],
)
def test_values_as_python_has_them(field: str, value: Any, stored: Any) -> None:
    """Times become milliseconds as the schema's documentation has it, decimals become doubles."""
    assert published({field: value})[0][field] == stored


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"Texd__c": "a"}, r"Record 1 .*'Texd__c'.*Text__c"),
        ({"Number__c": "twelve"}, "Record 1 .*does not fit"),
        ({"Moment__c": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - what must be refused
        ({"Text__c": "x" * 1_000_001}, r"Record 1 .*1,000,0\d\d bytes"),
    ],
    ids=["unknown field", "wrong type", "no time zone", "too large"],
)
def test_a_record_that_does_not_fit(record: dict[str, Any], said: str) -> None:
    """Named by its number, with what is wrong; nothing is sent of a call with such a record."""
    with pytest.raises(ConfigurationError, match=said):
        published({"Text__c": "fine"}, record)


def events(*sizes: int) -> list[ProducerEvent]:
    return [ProducerEvent(id=str(number), payload=b"x" * size) for number, size in enumerate(sizes)]


def test_requests_hold_at_most_200_events() -> None:
    """In order, none left out."""
    made = events(*[10] * 450)
    batches = list(requests(made))
    assert [len(batch) for batch in batches] == [200, 200, 50]
    assert [event for batch in batches for event in batch] == made


def test_requests_stay_below_3_megabytes() -> None:
    """Large events make small requests, however few."""
    batches = list(requests(events(*[900_000] * 7)))
    assert [len(batch) for batch in batches] == [3, 3, 1]


def test_nothing_makes_no_request() -> None:
    """An empty request is an error of the service."""
    assert list(requests([])) == []
