"""PushTopic and generic events on the bus: JSON payloads without a schema. Pure.

Shapes: Streaming API Developer Guide, "PushTopic Queries" and "Generate Events Using REST". Times
end with Z, as in API version 37.0 and later.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

KINDS = ("push", "generic")
"""Kinds of topics with such events."""


def push_event(
    change: str, shown: Mapping[str, Any], compared: Mapping[str, Any], at: datetime
) -> EncodedEvent:
    """Encode an event of a PushTopic.

    :param change: created, updated, deleted or undeleted.
    :param shown: fields of the message.
    :param compared: values of all selected fields, which filters of subscriptions compare.
    """
    body = {"type": change, "sobject": dict(shown), "compared": dict(compared)}
    return _encoded(body, at)


def generic_event(payload: str, user_ids: Sequence[str], at: datetime) -> EncodedEvent:
    """Encode a generic event.

    :param user_ids: users that receive it; empty for all.
    """
    return _encoded({"payload": payload, "userIds": list(user_ids)}, at)


def decoded(payload: bytes) -> dict[str, Any]:
    """Body of an event of either kind."""
    return dict(json.loads(payload))


def streamed_data(payload: bytes, replay_id: int | None) -> dict[str, Any]:
    """`data` of the message that carries an event of either kind."""
    body = decoded(payload)
    envelope = {"createdDate": body["createdDate"], "replayId": replay_id}
    if "sobject" in body:
        return {"event": {**envelope, "type": body["type"]}, "sobject": body["sobject"]}
    return {"event": envelope, "payload": body["payload"]}


def _encoded(body: dict[str, Any], at: datetime) -> EncodedEvent:
    created = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = json.dumps({"createdDate": created, **body}, separators=(",", ":"))
    return EncodedEvent(str(uuid.uuid4()), "", text.encode())
