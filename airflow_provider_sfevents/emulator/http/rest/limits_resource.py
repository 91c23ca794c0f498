"""The `/limits` resource: allowances of the event bus and the rest of them. Pure.

Keys and sizes: Platform Events Developer Guide, "Platform Event Allocations"; Streaming API guide,
"Streaming API Limits". Unless a knob sets them, the sizes are those of Performance and Unlimited
Edition without an add-on licence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs

_DELIVERED = 50_000
_PUBLISHED = 250_000
_STREAMED = 1_000_000
_CLIENTS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedAllowances:
    """Allowances that the clients of an org have used.

    :param delivered: events counted by the delivery allocation in the last 24 hours, for all
        subscribers.
    :param published: events in the last hour.
    :param cometd_clients: current number of CometD clients.
    """

    delivered: int
    published: int
    cometd_clients: int


def limits(knobs: Knobs, used: UsedAllowances) -> dict[str, dict[str, int]]:
    """Answer of `/limits`, for events only."""
    delivered = _size(knobs.delivery_allocation, _DELIVERED)
    published = _size(knobs.publish_allocation, _PUBLISHED)
    clients = _size(knobs.cometd_max_clients, _CLIENTS)
    left = {
        "DailyDeliveredPlatformEvents": (delivered, used.delivered),
        # Events over the Streaming API are not counted here, and there is no add-on licence with a
        # monthly allowance.
        "DailyDurableGenericStreamingApiEvents": (_STREAMED, 0),
        "DailyDurableStreamingApiEvents": (_STREAMED, 0),
        "DailyGenericStreamingApiEvents": (_STREAMED, 0),
        "DailyStandardVolumePlatformEvents": (0, 0),
        "DailyStreamingApiEvents": (_STREAMED, 0),
        "DurableStreamingApiConcurrentClients": (clients, used.cometd_clients),
        "HourlyPublishedPlatformEvents": (published, used.published),
        "MonthlyPlatformEventsUsageEntitlement": (0, 0),
        "StreamingApiConcurrentClients": (clients, used.cometd_clients),
    }
    return {
        name: {"Max": most, "Remaining": max(0, most - taken)}
        for name, (most, taken) in left.items()
    }


def _size(knob: int | None, usual: int) -> int:
    return usual if knob is None else knob
