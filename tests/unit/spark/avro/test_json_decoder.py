"""Messages of the Streaming API decode to the values of the same event in Avro."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator.cometd.event_json import event_message, payload_of
from airflow_provider_sfevents.emulator.org.sample_org import define_sample, publish_sample
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from airflow_provider_sfevents.spark.avro.decode import UndecodableError
from airflow_provider_sfevents.spark.avro.json_decoder import JsonMessages, header_of
from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from airflow_provider_sfevents.spark.schema.field_types import Column, record_fields
from airflow_provider_sfevents.staging.manifest import CHANGE_TYPE, JSON
from tests.unit.spark.avro.test_executor_tasks import RECEIVED, decoded, staged, task
from tests.unit.spark.conftest import ACCOUNT, ORDER

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator

MS = 1_767_323_045_678


def _message(payload: dict[str, Any]) -> bytes:
    data = {"schema": "x", "payload": payload, "event": {"replayId": 1}}
    return json.dumps({"data": data, "channel": "/event/Order__e"}).encode()


def _record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "X__e", "fields": list(fields)})


def _decoded(schema: Any, payload: dict[str, Any]) -> dict[str, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return JsonMessages(text, ()).decode(_message(payload))[0]


def _change(**fields: Any) -> dict[str, Any]:
    named = fields.pop("changedFields", [])
    header = {
        "entityName": "Account",
        "recordIds": ["001A"],
        "changeType": "UPDATE",
        "commitTimestamp": MS,
        "changedFields": named,
    }
    return {"ChangeEventHeader": header, **fields}


def test_events_of_the_sample_org_decode_alike(sfevents_emulator: Emulator) -> None:
    """Both forms of 400 events of four types give the same columns, rows and times."""
    define_sample(sfevents_emulator.org)
    publish_sample(sfevents_emulator.org, 400, seed=7)
    bus = sfevents_emulator.org.bus
    seen = 0
    for topic in bus.topics:
        events = [] if topic.members else bus.retained(topic.name)
        for event in events:
            [consumed] = pb.FetchResponse.FromString(event.wire).events
            schema = bus.schema(consumed.event.schema_id) or ""
            columns = [
                Column(name=name, field=name, type=kind)
                for name, kind in record_fields(json.loads(schema))
            ]
            message = json.dumps(event_message(event, topic.name, bus)).encode()
            other = JsonMessages(schema, columns)([message])
            reference = Reference(schema, columns)([payload_of(event)])
            assert other.arrays == reference.arrays
            assert (other.times, other.reasons) == (reference.times, {})
            seen += 1
    assert seen == 400


@pytest.mark.parametrize(
    ("doc", "text", "value"),
    [
        ("Data:DateTime:00N", "2026-01-02T03:04:05.678Z", MS),
        ("Data:DateTime:00N", "2026-01-02T04:04:05.678+0100", MS),
        ("Data:DateOnly:00N", "2026-01-02", MS - MS % 86_400_000),
        ("Data:Birthday:00N", "1969-12-31", -86_400_000),
        ("Data:TimeOnly:00N", "03:04:05.678Z", MS % 86_400_000),
        ("Data:DateTime:00N", MS, MS),
    ],
)
def test_times_are_milliseconds(doc: str, text: Any, value: int) -> None:
    """Text in ISO 8601 stands where Avro has milliseconds."""
    schema = _record({"name": "T", "type": ["null", "long"], "doc": doc, "default": None})

    assert _decoded(schema, {"T": text}) == {"T": value}


def test_large_integers_survive() -> None:
    """An integer above 2^53 keeps all its digits, and one of a double is a double."""
    schema = _record({"name": "I", "type": "long"}, {"name": "D", "type": "double"})

    assert _decoded(schema, {"I": 2**62 + 1, "D": 2}) == {"I": 2**62 + 1, "D": 2.0}


def test_emptied_fields_and_diffs_are_found() -> None:
    """A changed field that is absent or null was emptied, and an object with `diff` is a diff."""
    payload = _change(
        changedFields=["Name.LastName", "LastModifiedDate", "Name.FirstName"],
        Name={"FirstName": "Ada"},
    )

    header = _decoded(ACCOUNT, payload)["ChangeEventHeader"]

    assert header["changedFields"] == ["LastModifiedDate", "Name.FirstName", "Name.LastName"]
    assert header["nulledFields"] == ["LastModifiedDate", "Name.LastName"]
    assert header["diffFields"] == []
    diff = _decoded(ACCOUNT, _change(changedFields=["Name"], Name={"diff": "--- \n+++ \n"}))
    assert diff["Name"] == "--- \n+++ \n"
    assert diff["ChangeEventHeader"]["diffFields"] == ["Name"]
    assert diff["ChangeEventHeader"]["nulledFields"] == []


def test_a_push_topic_s_record() -> None:
    """A PushTopic's fields and the kind of change are read; the event's time is its own."""
    schema = _record({"name": CHANGE_TYPE, "type": "string"}, {"name": "Id", "type": "string"})
    event = {"createdDate": "2026-01-02T03:04:05.678Z", "replayId": 5, "type": "deleted"}
    message = json.dumps({"data": {"event": event, "sobject": {"Id": "001"}}}).encode()

    record, at = JsonMessages(schema, ()).decode(message)

    assert record == {CHANGE_TYPE: "deleted", "Id": "001"}
    assert at == MS


@pytest.mark.parametrize(
    "created", [9 * 10**17, 10**15, "9999-12-31T23:59:59.999-12:00", "0001-01-01T00:00:00+01:00"]
)
def test_a_record_s_time_out_of_bounds_is_not_readable(created: Any) -> None:
    """A time outside the years 1 to 9999 is null, as one that is no time, and the event decodes."""
    schema = _record({"name": CHANGE_TYPE, "type": "string"}, {"name": "Id", "type": "string"})
    event = {"createdDate": created, "replayId": 5, "type": "deleted"}
    message = json.dumps({"data": {"event": event, "sobject": {"Id": "001"}}}).encode()

    [row] = decoded(task({"x": schema}, payload_format=JSON), iter([staged(("x", message))]))

    assert row.column("event_time").to_pylist() == [None]
    assert row.column("event_date").to_pylist() == [RECEIVED.date()]


@pytest.mark.parametrize(("given", "text"), [("Hi", "Hi"), ({"a": [1]}, '{"a": [1]}')])
def test_a_generic_event_is_text(given: Any, text: str) -> None:
    """A generic event's payload is its text, or JSON if it is something else."""
    event = {"createdDate": "soon", "replayId": 5}
    message = json.dumps({"data": {"event": event, "payload": given}}).encode()

    decode = JsonMessages(_record({"name": "payload", "type": "string"}), ()).decode

    assert decode(message) == ({"payload": text}, None)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"Number__c": "1"}, "field CreatedDate is missing"),
        ({"CreatedDate": MS, "New__c": 1}, "has field 'New__c'"),
        ({"CreatedDate": MS, "Number__c": 5}, "5 is no text"),
        ({"CreatedDate": "yesterday"}, "field CreatedDate Invalid isoformat"),
        ({"CreatedDate": 2**63}, "no whole number of 64 bits"),
        ({"CreatedDate": True}, "True is no time"),
    ],
)
def test_a_message_that_does_not_fit_has_a_reason(payload: dict[str, Any], reason: str) -> None:
    """A message that its schema does not cover is undecodable, with the field's name."""
    with pytest.raises(UndecodableError, match=reason):
        _decoded(ORDER, payload)


@pytest.mark.parametrize("kind", ["double", ["null", "double", "string"]])
def test_an_integer_too_large_for_a_double_has_a_reason(kind: Any) -> None:
    """An integer beyond the largest double is undecodable, and the other events decode."""
    schema = _record({"name": "A__c", "type": kind})
    messages = [_message({"A__c": value}) for value in (1, 10**400, 2)]

    found = JsonMessages(schema, ())(messages)

    assert found.rows == [0, 2]
    assert "field A__c" in found.reasons[1]
    assert "too large" in found.reasons[1]


@pytest.mark.parametrize(
    "payload", [b"", b"\xff", b"[]", b"{}", b'{"data": 1}', b'{"data": {"payload": {"A": NaN}}}']
)
def test_what_is_no_message_has_a_reason(payload: bytes) -> None:
    """Bytes that are no message are undecodable."""
    decoded = JsonMessages(json.dumps(ORDER), ())([payload])

    assert decoded.rows == []
    assert "does not fit" in decoded.reasons[0]


def test_a_name_is_text_or_a_record() -> None:
    """Both branches of a union are found by the value's kind."""
    for name in ("Acme", {"FirstName": "Ada", "LastName": None}, None):
        assert _decoded(ACCOUNT, _change(Name=name))["Name"] == name


def test_an_unknown_change_type_is_undecodable() -> None:
    """A symbol that the schema does not list is refused, and the header can still be read."""
    payload = _change()
    payload["ChangeEventHeader"]["changeType"] = "MERGE"

    with pytest.raises(UndecodableError, match="no symbol of"):
        _decoded(ACCOUNT, payload)
    assert header_of(_message(payload))["recordIds"] == ["001A"]
    assert header_of(b"{") == {}
