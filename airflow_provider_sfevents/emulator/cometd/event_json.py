"""JSON form of an event in CometD: ISO-8601 times, field names for bitmaps, no nulls in changes.

Sources: Platform Events Developer Guide and Change Data Capture Developer Guide, examples of event
messages; Change Data Capture Developer Guide, "Change Event Fields", for diffs.
"""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus import field_bitmaps
from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for
from airflow_provider_sfevents.emulator.bus.streaming_events import streamed_data
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent

Fields = dict[str, Any]
_HEADER = (
    "commitNumber",
    "commitUser",
    "sequenceNumber",
    "entityName",
    "changeType",
    "changedFields",
    "changeOrigin",
    "transactionKey",
    "commitTimestamp",
    "recordIds",
)


def event_message(event: StoredEvent, channel: str, bus: Bus) -> Fields | None:
    """Build one data message; None for an event that does not decode, which JSON cannot carry.

    :param channel: channel as named in the subscription.
    """
    [consumed] = pb.FetchResponse.FromString(event.wire).events
    if not consumed.event.schema_id:
        replay_id = salesforce_ids.position_of(consumed.replay_id)
        return {"data": streamed_data(consumed.event.payload, replay_id), "channel": channel}
    schema_json, topic = bus.schema(consumed.event.schema_id), bus.topic(event.topic)
    if schema_json is None or topic is None:
        return None
    codec = codec_for(schema_json)
    try:
        fields = codec.decode(consumed.event.payload)
    except EmulatorError:
        return None
    written = _with_iso_times(fields, codec.schema)
    envelope: Fields = {"replayId": salesforce_ids.position_of(consumed.replay_id)}
    if topic.kind == "change":
        payload = change_payload(written, codec.schema)
    else:
        payload = written
        envelope = {"EventUuid": consumed.event.id, **envelope}
        if channel != event.topic:
            envelope["EventApiName"] = topic.record
    data = {"schema": consumed.event.schema_id, "payload": payload, "event": envelope}
    return {"data": data, "channel": channel}


def payload_of(event: StoredEvent) -> bytes:
    """Payload of an event, as encoded."""
    [consumed] = pb.FetchResponse.FromString(event.wire).events
    return consumed.event.payload


def change_payload(fields: Fields, schema: Fields) -> Fields:
    """Header and fields of a change event.

    Empty fields are left out unless the change emptied them.
    """
    header, body = fields["ChangeEventHeader"], dict(fields)
    del body["ChangeEventHeader"]
    named = {
        name: field_bitmaps.decode(schema, header[name])
        for name in ("changedFields", "nulledFields", "diffFields")
    }
    kept = {**header, "changedFields": named["changedFields"]}
    return {
        "ChangeEventHeader": {name: kept[name] for name in _HEADER},
        **{
            name: {"diff": value} if name in named["diffFields"] else value
            for name, value in _with_value(body, named["nulledFields"]).items()
        },
    }


def _with_value(body: Mapping[str, Any], nulled: Sequence[str]) -> Fields:
    """Fields that have a value or were emptied; likewise the members of a compound."""
    kept: Fields = {}
    for name, value in body.items():
        inner = [one.partition(".")[2] for one in nulled if one.startswith(f"{name}.")]
        if isinstance(value, dict):
            if members := _with_value(value, inner):
                kept[name] = members
        elif value is not None or name in nulled:
            kept[name] = value
    return kept


def _with_iso_times(fields: Fields, schema: Fields) -> Fields:
    """Format times as CometD does: with milliseconds and a Z."""
    hints = {field["name"]: str(field.get("doc", "")).split(":")[1:2] for field in schema["fields"]}
    return {name: _iso(value, hints.get(name, [])) for name, value in fields.items()}


def _iso(value: Any, hint: list[str]) -> Any:
    if not isinstance(value, str):
        return value
    if hint == ["DateTime"]:
        return value.replace("+00:00", "Z")
    if hint == ["TimeOnly"]:
        return f"{time.fromisoformat(value).isoformat(timespec='milliseconds')}Z"
    return value
