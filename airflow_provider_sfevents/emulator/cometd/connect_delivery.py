"""Select the events for a client's connect: all its channels, in bus order, up to the limits.

"A CometD client can receive a batch of events at once" and should have a buffer of 10 MB for it
(Platform Events Developer Guide); how many a batch holds is not published.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.cometd.event_json import event_message, payload_of

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent
    from airflow_provider_sfevents.emulator.faults.delivery_faults import DeliveryFaults
    from airflow_provider_sfevents.emulator.state.cometd_clients import CometdClient, Subscribed

MAX_BATCH_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectBatch:
    """Events of one response.

    :param parts: JSON of each event.
    :param counted: number of events per channel.
    """

    parts: list[str]
    counted: Counter[str]


def is_ready(client: CometdClient, bus: Bus) -> bool:
    """True if an event is ready for the client."""
    return any(
        bus.has_after(one.topic_name, one.after) for one in tuple(client.subscriptions.values())
    )


def take(client: CometdClient, bus: Bus, limit: int, faults: DeliveryFaults) -> ConnectBatch:
    """Take the next events of the client's channels; they count as delivered.

    If the org has moved there are none.

    :param faults: ordered repetitions and re-orderings, within this response.
    """
    taken: list[tuple[str, str]] = []
    size = 0
    with bus.lock:  # the org must not move between the check and the read
        upcoming = _upcoming(client, bus, limit) if client.numbering == bus.numbering else []
    for subscribed, event in upcoming:
        admitted = subscribed.admits is None or subscribed.admits(payload_of(event))
        message = event_message(event, subscribed.channel, bus) if admitted else None
        part = written(message) if message else ""
        size += len(part)
        if size > MAX_BATCH_BYTES and taken:
            break
        subscribed.after = event.position
        if part:
            taken.append((subscribed.channel, part))
    sent = faults.with_faults(taken)
    return ConnectBatch([part for _, part in sent], Counter(channel for channel, _ in sent))


def written(message: dict[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"))


def _upcoming(client: CometdClient, bus: Bus, limit: int) -> list[tuple[Subscribed, StoredEvent]]:
    found = [
        (one, event)
        for one in client.subscriptions.values()
        for event in bus.read(one.topic_name, one.after, limit)
    ]
    found.sort(key=lambda pair: pair[1].position)
    return found[:limit]
