"""Creation times read from the front of real-shaped payloads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import fastavro
import pytest

from airflow_provider_sfevents.pubsub.streaming.event_time import as_time, event_time_reader

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
ORDER = {
    "type": "record",
    "name": "Order__e",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {"name": "CreatedDate", "type": "long"},
        {"name": "CreatedById", "type": "string"},
        {"name": "City__c", "type": ["null", "string"], "default": None},
    ],
}
STRINGS = {"type": "array", "items": "string"}
HEADER = {
    "type": "record",
    "name": "ChangeEventHeader",
    "fields": [
        {"name": "entityName", "type": "string"},
        {"name": "recordIds", "type": STRINGS},
        {
            "name": "changeType",
            "type": {
                "type": "enum",
                "name": "ChangeType",
                "namespace": "",
                "symbols": ["CREATE", "GAP_UPDATE"],
            },
        },
        {"name": "changeOrigin", "type": "string"},
        {"name": "transactionKey", "type": "string"},
        {"name": "sequenceNumber", "type": "int"},
        {"name": "commitTimestamp", "type": "long"},
        {"name": "commitNumber", "type": "long"},
        {"name": "commitUser", "type": "string"},
        {"name": "nulledFields", "type": STRINGS},
    ],
}  # fmt: skip
ACCOUNT = {
    "type": "record",
    "name": "AccountChangeEvent",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {"name": "ChangeEventHeader", "type": HEADER},
        {"name": "Name", "type": ["null", "string"], "default": None},
        {"name": "CreatedDate", "type": ["null", "long"], "default": None},
    ],
}


def payload(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def order(created: int) -> bytes:
    return payload(
        ORDER, {"CreatedDate": created, "CreatedById": "005000000000000AAA", "City__c": "Zürich"}
    )


def change(committed: int, change_type: str = "CREATE") -> bytes:
    header = {
        "entityName": "Account",
        "recordIds": ["001000000000001AAA", "001000000000002AAA"],
        "changeType": change_type,
        "changeOrigin": "com/salesforce/api/soap/57.0;client=SfdcInternalAPI/",
        "transactionKey": "00033c92-748b-4bdc-87ca-a4904c5f0e7e",
        "sequenceNumber": 1,
        "commitTimestamp": committed,
        "commitNumber": 1756817292878872579,
        "commitUser": "005000000000000AAA",
        "nulledFields": [],
    }
    return payload(ACCOUNT, {"ChangeEventHeader": header, "Name": "A", "CreatedDate": 0})


def test_platform_events_say_when_they_were_created() -> None:
    """The time of a platform event is its `CreatedDate`, to the millisecond."""
    read = event_time_reader(json.dumps(ORDER))
    assert read(order(NOON_MS + 1)) == NOON.replace(microsecond=1000)


@pytest.mark.parametrize("change_type", ["CREATE", "GAP_UPDATE"])
def test_change_events_say_when_they_were_committed(change_type: str) -> None:
    """The time of a change event is its header's `commitTimestamp`, not `CreatedDate`."""
    read = event_time_reader(json.dumps(ACCOUNT))
    assert read(change(NOON_MS, change_type)) == NOON


def test_only_the_front_is_decoded() -> None:
    """A payload that is damaged behind the time still has one."""
    assert event_time_reader(json.dumps(ORDER))(order(NOON_MS)[:8]) == NOON


@pytest.mark.parametrize(
    ("value", "time"),
    [
        pytest.param(NOON_MS, NOON, id="milliseconds"),
        pytest.param(NOON_MS // 1000, NOON, id="seconds, as the samples send"),
        pytest.param(0, None, id="never set"),
        pytest.param(-NOON_MS, None, id="negative"),
        pytest.param(NOON_MS * 1000, None, id="microseconds"),
        pytest.param(2**63 - 1, None, id="largest long"),
        pytest.param(True, None, id="no number"),
        pytest.param("2026", None, id="text"),
        pytest.param(None, None, id="null"),
    ],
)
def test_values_that_are_and_are_not_times(value: object, time: datetime | None) -> None:
    """Milliseconds, otherwise seconds, of this century are times; other values are not."""
    assert as_time(value) == time


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"\xff" * 30], ids=["empty", "cut", "overlong"])
@pytest.mark.parametrize("schema", [ORDER, ACCOUNT], ids=["platform", "change"])
def test_a_payload_that_cannot_be_read(schema: dict[str, Any], damaged: bytes) -> None:
    """A payload that cannot be decoded has no time and raises no error."""
    assert event_time_reader(json.dumps(schema))(damaged) is None


def test_a_front_that_could_fill_the_memory_is_not_read() -> None:
    """No time is read behind a field that could decode to more than memory holds."""
    fields = json.loads(json.dumps(ORDER))["fields"]
    for front in ({"type": "array", "items": "null"}, ["null", "Order__e"]):
        schema = {**ORDER, "fields": [{"name": "First", "type": front}, *fields]}
        assert event_time_reader(json.dumps(schema))(b"\x00" + order(NOON_MS)) is None


@pytest.mark.parametrize(
    "schema",
    ["", "no json", "[" * 200_000, "[]", "{}", '{"type": "record", "name": "X", "fields": []}', '{"fields": [{"name": "CreatedDate", "type": "odd"}]}'],
)  # fmt: skip
def test_a_schema_without_a_time(schema: str) -> None:
    """A schema without a time field gives a reader that finds none."""
    assert event_time_reader(schema)(order(NOON_MS)) is None
