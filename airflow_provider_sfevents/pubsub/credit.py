"""Credit: the number of events to request next. Pure.

Credit is the events requested and not yet delivered. The service adds each request to it and holds
at most 100.

Rule 1. The client requests before everything has been delivered: a client that waits for that
        leaves the stream idle for a round trip and gets half the rate. The credit that is left when
        it requests must cover what it could take during a round trip, which is measured. On a slow
        link that is all of it, so each response is followed by a request. On a fast link it is a
        few events, and requests are for `SPAN` of them: more requests than needed make responses
        smaller, and cost both sides time. The rate is a constant: the measured one times the round
        trip is what is under way, on any link.
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
from typing import NamedTuple

# The service's limit per stream; it treats more as this (flow control page).
MAX_CREDIT = 100
# Before the first event its size is a guess; a platform event of a dozen fields has some hundred
# bytes.
ASSUMED_EVENT_BYTES = 1_000.0
# A request written this long ago has been counted by the service.
SETTLED_SECONDS = 10.0
SPAN = 60
"""Events of a request where the link is fast."""
FEWEST = 4
"""Events of a request where the link is slow: responses of fewer would keep both sides busy."""
MOST_RATE = 25_000.0
"""Events per second that one process takes at most (`benchmarks/fetch_throughput.py`)."""


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


class Credit(NamedTuple):
    """Credit of one stream, and what was measured of its link. Times are of a monotonic clock.

    :param outstanding: events requested and not delivered yet.
    :param round_trip: smallest time in seconds from a request to the response that counts it; None:
        not measured yet, and taken for fast.
    :param measured_at: time of the request that is being measured; None: none is.
    """

    outstanding: int = 0
    round_trip: float | None = None
    measured_at: float | None = None

    def to_ask(self, wanted: int) -> int:
        """Number of events to request now so that the credit becomes what is wanted; 0: none yet.

        It cannot be taken back.
        """
        wanted = min(wanted, MAX_CREDIT)
        missing = max(0, wanted - self.outstanding)
        lead = math.ceil((self.round_trip or 0.0) * MOST_RATE)
        fewest = FEWEST if wanted == MAX_CREDIT else 0  # the rest of a batch is not held back
        return missing if missing >= min(SPAN, max(fewest, wanted - lead)) else 0

    def asked(self, events: int, at: float) -> Credit:
        """The credit after a request at this time."""
        measured_at = at if self.measured_at is None else self.measured_at
        return Credit(self.outstanding + events, self.round_trip, measured_at)

    def delivered(self, events: int, *, reported: int, waited_seconds: float, at: float) -> Credit:
        """The credit after a response at this time.

        :param reported: `pending_num_requested` of the response.
        :param waited_seconds: time that the client listened for this response after it had written
            its last request.
        """
        counted = max(0, self.outstanding - events)
        if waited_seconds >= SETTLED_SECONDS:
            return Credit(min(max(0, reported), MAX_CREDIT), self.round_trip)
        if reported < counted:  # a request is under way
            return Credit(counted, self.round_trip, self.measured_at)
        return Credit(min(reported, MAX_CREDIT), self._round_trip_by(at))

    def _round_trip_by(self, at: float) -> float | None:
        """The smallest round trip if all requests have been counted by this time."""
        if self.measured_at is None:
            return self.round_trip
        took = at - self.measured_at
        return took if self.round_trip is None else min(took, self.round_trip)
