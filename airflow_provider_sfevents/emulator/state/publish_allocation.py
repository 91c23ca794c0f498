"""Hourly allocation of published events, for all ways to publish.

The call log counts deliveries.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.knobs import Knobs

OVER = "LIMIT_EXCEEDED: The org has exceeded its hourly limit of published events."
"""Refusal of an event beyond the limit. The code is documented; the text is the emulator's own."""
_HOUR = 3600.0


def counts(topic: str) -> bool:
    """True if deliveries of a topic use the allocation.

    Real-time monitoring, PushTopics and generic channels do not (API guide): the latter have limits
    of their own.
    """
    return not topic.endswith("EventStream") and not topic.startswith(("/topic/", "/u/"))


class PublishAllocation:
    """Events published by clients of each org in the last hour. Safe to use from any thread.

    Time is the emulator's clock. Events published by a test's verbs are not counted.
    """

    def __init__(self, *, clock: EmulatorClock, knobs: Knobs) -> None:
        self._clock = clock
        self._most = knobs.publish_allocation
        self._lock = threading.Lock()
        self._recent: dict[str, deque[tuple[float, int]]] = {}

    def take(self, org_id: str, events: int) -> int:
        """Count events to publish and return the number that is allowed."""
        with self._lock:
            used = self._used(org_id)  # it also drops what is older than an hour
            left = events if self._most is None else self._most - used
            allowed = min(events, left)
            if allowed > 0:
                self._remember(org_id, allowed)
            return max(0, allowed)

    def used(self, org_id: str) -> int:
        """Events published in the last hour."""
        with self._lock:
            return self._used(org_id)

    def _remember(self, org_id: str, events: int) -> None:
        """Add events to the count, grouped by second."""
        recent = self._recent.setdefault(org_id, deque())
        at = self._clock.timestamp()
        before = recent.pop() if recent and at - recent[-1][0] < 1 else (at, 0)
        recent.append((before[0], before[1] + events))

    def _used(self, org_id: str) -> int:
        recent = self._recent.setdefault(org_id, deque())
        while recent and recent[0][0] <= self._clock.timestamp() - _HOUR:
            recent.popleft()
        return sum(events for _, events in recent)
