"""How an event is kept on a bus: encoded once, as the response that carries it alone, for its topic and for each channel. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import ids
from airflow_provider_sfevents.emulator.replay_log import StoredEvent
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.topics import Encoded


def stored(topic: str, event: Encoded, position: int, at: float, size: int) -> list[StoredEvent]:
    """Event at a place, then the copies that channels have of it.

    :param size: bytes of a replay id.
    """
    own = pb.ProducerEvent(id=event.id, schema_id=event.schema_id, payload=event.payload)
    copies = [StoredEvent(position, at, topic, _wire(own, position, size))]
    for channel, payload in event.on_channels.items():
        if payload is None:
            copies.append(StoredEvent(position, at, topic, b"", channel))
            continue
        other = pb.ProducerEvent(id=event.id, schema_id=event.schema_id, payload=payload)
        copies.append(StoredEvent(position, at, topic, _wire(other, position, size), channel))
    return copies


def moved(event: StoredEvent, to: int, size: int) -> StoredEvent:
    """Event, or copy of one, at another place."""
    if not event.wire:
        return replace(event, position=to)
    [consumed] = pb.FetchResponse.FromString(event.wire).events
    return replace(event, position=to, wire=_wire(consumed.event, to, size))


def _wire(event: pb.ProducerEvent, position: int, size: int) -> bytes:
    consumed = pb.ConsumerEvent(event=event, replay_id=ids.replay_id(position, size))
    return pb.FetchResponse(events=[consumed]).SerializeToString()
