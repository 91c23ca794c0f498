"""Credit: the number of events to request next. Pure.

Credit is the events requested and not yet delivered. The service adds each request to it and holds
at most 100.

Rule 1. The client requests as soon as a response frees room, not when everything has been
        delivered: a client that waits for that leaves the stream idle for a round trip and gets
        half the rate.
Rule 2. Never more than the batch may still hold, never more than 100; rule 3 has one exception.
Rule 3. The client counts its requests less the deliveries. The service's own count in a response
        lacks the requests that are still under way. So it is used only if it is higher, or if the
        response came `SETTLED_SECONDS` or more after the last request, when no request should be
        under way any more. The exception to rule 2: if the connection held a request back for
        longer than that (a stall of TCP, a round trip of more than 10 s), the same events are
        requested twice. The surplus is cut from the batch, is counted as extra deliveries, and is
        delivered again to the next batch. Ignoring the service's count would be worse: after a
        clamp or a lost request the credit would stay too high, and the stream would starve.
"""

from __future__ import annotations

import math

# The service's limit per stream; it treats more as this (flow control page).
MAX_CREDIT = 100
# Before the first event its size is a guess; a platform event of a dozen fields has some hundred
# bytes.
ASSUMED_EVENT_BYTES = 1_000.0
# A request written this long ago has been counted by the service.
SETTLED_SECONDS = 10.0


def wanted(room_events: int, room_bytes: int | None, mean_event_bytes: float) -> int:
    """Credit that a batch with so much room left should have outstanding.

    :param room_events: events that the batch may still hold; without room, no credit.
    :param room_bytes: likewise bytes; None: no limit. The last event may exceed it.
    """
    if room_events <= 0 or (room_bytes is not None and room_bytes <= 0):
        return 0
    events = min(MAX_CREDIT, room_events)
    if room_bytes is None:
        return events
    return min(events, math.ceil(room_bytes / max(1.0, mean_event_bytes)))


def to_ask(outstanding: int, wanted: int) -> int:
    """Number of events to request so that the credit becomes what is wanted.

    It cannot be taken back.
    """
    return max(0, min(wanted, MAX_CREDIT) - outstanding)


def after_delivery(
    outstanding: int, *, delivered: int, reported: int, waited_seconds: float
) -> int:
    """The credit after a response.

    :param reported: `pending_num_requested` of the response.
    :param waited_seconds: time that the client listened for this response after it had written its
        last request.
    """
    counted = max(0, outstanding - delivered)
    if reported > counted or waited_seconds >= SETTLED_SECONDS:
        return min(max(0, reported), MAX_CREDIT)
    return counted
