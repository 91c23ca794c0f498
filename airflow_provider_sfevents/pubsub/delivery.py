"""One response of the service, in columns: each event is touched as little as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The columns have one entry for each event; a keepalive's are empty.

    :param ids: the events' ids; empty text where the service sent none.
    :param latest_replay_id: of a keepalive: a place that is safe to start from, often ahead of the last event.
    :param pending: what the service still owes, by its own count.
    :param received_at: microseconds since the epoch.
    """

    ids: list[str]
    replay_ids: list[bytes]
    schema_ids: list[str]
    payloads: list[bytes]
    latest_replay_id: bytes
    pending: int
    rpc_id: str
    received_at: int

    def __len__(self) -> int:
        return len(self.replay_ids)

    @property
    def resume_after(self) -> bytes:
        """Where a subscription goes on after this delivery."""
        return self.replay_ids[-1] if self.replay_ids else self.latest_replay_id

    def head(self, events: int) -> Delivery:
        """The first so many events; where some are left out, `latest_replay_id` is that of the last one kept."""
        if events >= len(self):
            return self
        return replace(
            self,
            ids=self.ids[:events],
            replay_ids=self.replay_ids[:events],
            schema_ids=self.schema_ids[:events],
            payloads=self.payloads[:events],
            latest_replay_id=self.replay_ids[events - 1] if events else b"",
        )


def from_response(response: FetchResponse, received_at: int) -> Delivery:
    events = list(response.events)  # once: each pass over the field itself makes its wrappers anew
    produced = [consumed.event for consumed in events]
    return Delivery(
        ids=[event.id for event in produced],
        replay_ids=[consumed.replay_id for consumed in events],
        schema_ids=[event.schema_id for event in produced],
        payloads=[event.payload for event in produced],
        latest_replay_id=response.latest_replay_id,
        pending=response.pending_num_requested,
        rpc_id=response.rpc_id,
        received_at=received_at,
    )
