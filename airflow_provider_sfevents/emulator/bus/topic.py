"""Topics and events of a bus as plain values, and the protocol of its journal.

An event is encoded once, as the `FetchResponse` that carries it alone: for its topic and for each
channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent, TopicLog
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class BusTopic:
    """A topic of the bus.

    :param record: API name of the platform event or entity; empty for a channel.
    :param schema_id: schema id of the newest version; empty for a channel.
    :param members: topics that a channel carries.
    :param removed: the channel, PushTopic or generic channel was removed; other topics stay.
    :param streaming_only: the Streaming API alone serves it, and its events are kept for the
        shorter retention: PushTopics, generic channels, standard-volume events.
    :param fields: fields of a PushTopic's messages, which filters of subscriptions may name.
    """

    name: str
    kind: Literal["event", "change", "channel", "push", "generic"]
    record: str = ""
    schema_id: str = ""
    can_publish: bool = False
    can_subscribe: bool = True
    members: tuple[str, ...] = ()
    removed: bool = False
    streaming_only: bool = False
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An encoded event, ready to be published.

    :param on_channels: payload for these channels instead of the event's own; None if a channel
        leaves the event out.
    """

    id: str
    schema_id: str
    payload: bytes
    on_channels: Mapping[str, bytes | None] = field(default_factory=dict)


Standing = tuple[Sequence[BusTopic], Sequence[tuple[str, str]], Sequence[bytes], int]
"""Content of a bus that does not expire.

Topics, schemas by id, notes that summarise all notes so far, and the newest position.
"""


class Journal(Protocol):
    """The journal that a bus writes to."""

    def topic(self, topic: BusTopic) -> None: ...
    def schema(self, schema_id: str, schema_json: str) -> None: ...
    def events(
        self, events: Sequence[StoredEvent], note: bytes = b"", topics: Sequence[BusTopic] = ()
    ) -> None: ...
    def position(self, position: int, at: float) -> None: ...
    def renumbered(
        self, position: int, events: Sequence[StoredEvent], *, old_valid: bool
    ) -> None: ...
    def sweep(self, now: float, since: float) -> None: ...


def check_publishable(name: str, topics: Mapping[str, BusTopic]) -> None:
    """Check that events can be published to a topic.

    :raises EmulatorError: the topic is not defined, or is a channel.
    """
    target = topics.get(name)
    if target is None or target.kind == "channel":
        what = "is a channel; publish to one of its members" if target else "was never defined"
        raise EmulatorError(f"topic {name!r} {what}; defined: {', '.join(topics) or 'none'}")


def carriers(topics: Mapping[str, BusTopic]) -> dict[str, tuple[str, ...]]:
    """Topics that carry the events of each topic: itself, and its channels."""
    return {
        name: (name, *(other.name for other in topics.values() if name in other.members))
        for name in topics
    }


def with_member(channel: BusTopic, member: str) -> BusTopic:
    """Copy of a channel with one more member."""
    return (
        channel
        if member in channel.members
        else replace(channel, members=(*channel.members, member))
    )


def merged(
    past: Iterable[StoredEvent], own: Iterable[StoredEvent], left_out: TopicLog | None
) -> TopicLog:
    """Log of a channel: past events of its members, in bus order.

    :param own: the channel's copies, which take the place of the events.
    :param left_out: events that the channel does not carry.
    """
    log, copies = TopicLog(), {copy.position: copy for copy in own}
    for event in sorted(past, key=lambda event: event.position):
        if not (left_out and left_out.holds(event.position)):
            log.append(copies.get(event.position, event))
    return log


def stored_copies(
    topic: str, event: EncodedEvent, position: int, at: float, size: int
) -> list[StoredEvent]:
    """The event as stored at a position, followed by the copies for channels.

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


def moved_event(event: StoredEvent, to: int, size: int) -> StoredEvent:
    """Copy of a stored event at another position."""
    if not event.wire:
        return replace(event, position=to)
    [consumed] = pb.FetchResponse.FromString(event.wire).events
    return replace(event, position=to, wire=_wire(consumed.event, to, size))


def _wire(event: pb.ProducerEvent, position: int, size: int) -> bytes:
    consumed = pb.ConsumerEvent(event=event, replay_id=salesforce_ids.replay_id(position, size))
    return pb.FetchResponse(events=[consumed]).SerializeToString()
