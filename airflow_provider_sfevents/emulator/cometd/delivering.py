"""Which events a client's connect carries: those of all its channels in the order of the bus, as many as fit.

"A CometD client can receive a batch of events at once" and should have a buffer of 10 MB for it (Platform Events Developer
Guide); how many a batch holds is not published.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.cometd.shapes import event_message

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus import Bus
    from airflow_provider_sfevents.emulator.cometd_clients import Client, Subscribed
    from airflow_provider_sfevents.emulator.replay_log import StoredEvent

MAX_BATCH_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """What one response carries.

    :param parts: JSON of each event.
    :param counted: how many of them go to each channel.
    """

    parts: list[str]
    counted: Counter[str]


def is_ready(client: Client, bus: Bus) -> bool:
    """Whether an event waits for the client."""
    return any(
        bus.has_after(one.channel, one.after) for one in tuple(client.subscriptions.values())
    )


def take(client: Client, bus: Bus, limit: int) -> Batch:
    """Take the next events out of the client's channels; they count as delivered from here on. Where the org has moved there are none."""
    batch, size = Batch([], Counter()), 0
    with bus.lock:  # an org may move between the look at its numbering and the read
        upcoming = _upcoming(client, bus, limit) if client.numbering == bus.numbering else []
    for subscribed, event in upcoming:
        message = event_message(event, subscribed.channel, bus)
        part = written(message) if message else ""
        size += len(part)
        if size > MAX_BATCH_BYTES and batch.parts:
            break
        subscribed.after = event.position
        if part:
            batch.parts.append(part)
            batch.counted[subscribed.channel] += 1
    return batch


def written(message: dict[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"))


def _upcoming(client: Client, bus: Bus, limit: int) -> list[tuple[Subscribed, StoredEvent]]:
    found = [
        (one, event)
        for one in client.subscriptions.values()
        for event in bus.read(one.channel, one.after, limit)
    ]
    found.sort(key=lambda pair: pair[1].position)
    return found[:limit]
