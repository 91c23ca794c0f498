"""Responses of the service, in columns. Each event is touched as little and as late as possible."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.proto.pubsub_api_pb2 import (
        ConsumerEvent,
        FetchResponse,
        ProducerEvent,
    )


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One response or several, in columns with an entry for each event; a keepalive has none.

    They are made on first use, so that the next events can be requested before.

    :param latest_replay_id: of a keepalive: a replay id that is safe to start from, often ahead of
        the last event.
    :param pending: events that the service still owes, by its own count.
    :param received_at: of the first response, in microseconds since the epoch.
    :param size: bytes of the responses, which is the memory that it takes.
    """

    events: Sequence[ConsumerEvent] = field(repr=False)
    latest_replay_id: bytes
    pending: int
    rpc_id: str
    received_at: int
    size: int = field(default=0, compare=False)

    def __len__(self) -> int:
        return len(self.events)

    @cached_property
    def ids(self) -> list[str]:
        """The events' ids; empty text if the service sent none."""
        return [event.id for event in self._produced]

    @cached_property
    def replay_ids(self) -> list[bytes]:
        return [consumed.replay_id for consumed in self.events]

    @cached_property
    def schema_ids(self) -> list[str]:
        return [event.schema_id for event in self._produced]

    @cached_property
    def payloads(self) -> list[bytes]:
        return [consumed.event.payload for consumed in self.events]

    @property
    def payload_sizes(self) -> list[int]:
        """Bytes of each payload."""
        return [len(payload) for payload in self.payloads]

    @property
    def payload_bytes(self) -> int:
        """Sum of the payloads' sizes."""
        return sum(map(len, self.payloads))

    @property
    def resume_after(self) -> bytes:
        """Replay id after which a subscription continues behind this delivery."""
        return self.events[-1].replay_id if self.events else self.latest_replay_id

    @property
    def shows_nothing_pending(self) -> bool:
        """True for a keepalive that came although events were requested."""
        return not self.events and bool(self.latest_replay_id) and self.pending > 0

    def head(self, events: int) -> Delivery:
        """The first `events` events; `latest_replay_id` is then that of the last of them."""
        if events >= len(self):
            return self
        return replace(
            self,
            events=self.events[:events],
            latest_replay_id=self.events[events - 1].replay_id,
        )

    def tail(self, events: int) -> Delivery:
        """All events but the first `events`."""
        return self if not events else replace(self, events=self.events[events:])

    @cached_property
    def _produced(self) -> list[ProducerEvent]:
        return [consumed.event for consumed in self.events]


def from_response(
    response: FetchResponse, events: Sequence[ConsumerEvent], received_at: int, size: int
) -> Delivery:
    """Delivery of one response, or of the last of several.

    :param events: of all of them.
    """
    return Delivery(
        events=events,
        latest_replay_id=response.latest_replay_id,
        pending=response.pending_num_requested,
        rpc_id=response.rpc_id,
        received_at=received_at,
        size=size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """An event that came in a message of the Streaming API.

    :param payload: the message, as it was received.
    """

    event_id: str
    replay_id: bytes
    schema_id: str
    payload: bytes


def from_messages(
    messages: Sequence[ReceivedMessage],
    *,
    received_at: int,
    latest_replay_id: bytes,
    is_idle: bool = False,
) -> Delivery:
    """Delivery of messages of the Streaming API.

    :param latest_replay_id: where a subscription continues behind them.
    :param is_idle: the service has held its answer without an event, so that none is pending.
    """
    from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2

    events = [
        pb2.ConsumerEvent(
            event=pb2.ProducerEvent(id=one.event_id, schema_id=one.schema_id, payload=one.payload),
            replay_id=one.replay_id,
        )
        for one in messages
    ]
    return Delivery(
        events=events,
        latest_replay_id=latest_replay_id,
        pending=int(is_idle),
        rpc_id="",
        received_at=received_at,
        size=sum(len(one.payload) for one in messages),
    )
