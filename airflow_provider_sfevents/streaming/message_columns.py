"""Columns of the staging area from the Streaming API's messages. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.streaming.delivery import ReceivedMessage
from airflow_provider_sfevents.pubsub.streaming.event_time import as_time
from airflow_provider_sfevents.streaming.bayeux_messages import point_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent


def received(event: StreamedEvent, schema_id: str) -> ReceivedMessage:
    """Return a message as it is staged.

    Messages of PushTopics, generic events and change events have no id. The first two get one: the
    time of creation and the replay id, which are the same whenever the event is delivered. Change
    events are told apart by their header.

    :param schema_id: of the topic, for a message that names none.
    :raises TransportError: the message has no replay id.
    """
    if event.replay_id is None:
        raise TransportError(
            f"A message of {event.channel} has no replay id, so that nothing could continue after "
            f"it: {event.text[:200]!r}. Use an API version from 37.0 on."
        )
    data = event.message["data"]
    own = data["event"]
    named = own.get("EventUuid") or ""
    if not named and "schema" not in data:
        named = f"{own.get('createdDate', '')}/{event.replay_id}"
    return ReceivedMessage(
        event_id=str(named),
        replay_id=bytes.fromhex(point_after(event.replay_id).to_text()),
        schema_id=str(data.get("schema") or schema_id),
        payload=event.text.encode(),
    )


def event_time(payload: bytes) -> datetime | None:
    """Return the creation time of a staged message's event; None if it is not readable."""
    try:
        return created_at(json.loads(payload))
    except (ValueError, RecursionError):
        return None


def created_at(message: Mapping[str, Any]) -> datetime | None:
    """Return the creation time of a message's event; None if it is not readable."""
    try:
        data = message["data"]
        if "schema" not in data:
            return _time(data["event"]["createdDate"])
        header = data["payload"].get("ChangeEventHeader")
        return _time(header["commitTimestamp"] if header else data["payload"]["CreatedDate"])
    except (KeyError, TypeError, AttributeError):
        return None


def unknown_field(event: StreamedEvent, fields: frozenset[str]) -> str:
    """Return a field of a PushTopic's message that its schema does not have; empty: none."""
    record = event.message["data"].get("sobject")
    return next((name for name in record or () if name not in fields), "")


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return as_time(value)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
