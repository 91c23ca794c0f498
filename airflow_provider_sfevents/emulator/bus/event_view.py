"""A readable view of an event: JSON with decoded fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus import field_bitmaps, streaming_events
from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent

_BITMAPS = ("nulledFields", "diffFields", "changedFields")


def describe(event: StoredEvent, bus: Bus) -> dict[str, Any]:
    """Envelope and fields as plain JSON: times as ISO-8601, bitmaps as field names.

    An event that does not decode has `undecodable` with the reason instead of `fields`.
    """
    [consumed] = pb.FetchResponse.FromString(event.wire).events
    produced = consumed.event
    envelope = {
        "replay_id": consumed.replay_id.hex(),
        "id": produced.id,
        "topic": event.topic,
        "schema_id": produced.schema_id,
        "published_at": datetime.fromtimestamp(event.published_at, UTC).isoformat(
            timespec="milliseconds"
        ),
    }
    if not produced.schema_id:
        return {**envelope, "fields": streaming_events.decoded(produced.payload)}
    schema = bus.schema(produced.schema_id)
    if schema is None:
        return {
            **envelope,
            "undecodable": f"schema {produced.schema_id!r} is unknown",
            "bytes": len(produced.payload),
        }
    codec = codec_for(schema)
    try:
        fields = codec.decode(produced.payload)
    except EmulatorError as error:
        return {**envelope, "undecodable": str(error), "bytes": len(produced.payload)}
    header = fields.get("ChangeEventHeader")
    if isinstance(header, dict):
        header |= {name: field_bitmaps.decode(codec.schema, header[name]) for name in _BITMAPS}
    return {**envelope, "fields": fields}
