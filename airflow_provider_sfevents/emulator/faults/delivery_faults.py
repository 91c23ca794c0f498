"""Delivery faults: repeated, reordered or resent events, and paused keepalives."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder
from airflow_provider_sfevents.emulator.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.emulator.knobs import Knobs


T = TypeVar("T")


class DeliveryFaults:
    """Pending delivery faults, for the next stream or connect that delivers.

    Safe to use from any thread.
    """

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._seeded = SeededRandom(f"{knobs.seed}:deliveries")
        self._lock = threading.Lock()
        self._repeat = 0
        self._reorder = 0
        self._resend: deque[int] = deque()
        self.keepalives_paused = False

    def repeat(self, events: int) -> None:
        with self._lock:
            self._repeat += _counted("repeat_next", events)

    def reorder(self, events: int) -> None:
        """Reverse the next events.

        :raises EmulatorError: fewer than two events.
        """
        if events < 2:
            raise EmulatorError(f"reorder_next({events}): an order takes two events at least")
        with self._lock:
            self._reorder = events

    def resend(self, events: int, times: int) -> None:
        with self._lock:
            self._resend.extend([_counted("resend_on_reconnect", events)] * times)

    def take_resend(self) -> int:
        """Number of earlier events that the reconnecting stream receives again."""
        with self._lock:
            return self._resend.popleft() if self._resend else 0

    def with_faults(self, events: Sequence[T]) -> list[T]:
        """Events to send in place of these next events of a stream or connect."""
        with self._lock:
            if self._reorder and len(events) > 1:
                turned, self._reorder = min(self._reorder, len(events)), 0
                events = [*reversed(events[:turned]), *events[turned:]]
            elif self._seeded.happens(self._knobs.reorder_rate):
                events = events[::-1]
            doubled = min(self._repeat, len(events))
            self._repeat -= doubled
            twice = [copy for event in events[:doubled] for copy in (event, event)]
            return [*twice, *self._seeded.doubled(events[doubled:], self._knobs.repeat_rate)]

    def reach(self, limit: int) -> int:
        """Number of events to read for a response of at most `limit`: a fault may concern more."""
        with self._lock:
            return max(limit, self._reorder)

    def waiting(self) -> tuple[FaultOrder, ...]:
        with self._lock:
            counted = {
                "repeat": self._repeat,
                "reorder": self._reorder,
                "pause keepalives": int(self.keepalives_paused),
            }
            resent = [
                FaultOrder(rpc="Subscribe", how="resend", after=events) for events in self._resend
            ]
        ordered = [FaultOrder(rpc="Subscribe", how=how, times=n) for how, n in counted.items() if n]
        return (*ordered, *resent)

    def clear(self) -> None:
        with self._lock:
            self._repeat = self._reorder = 0
            self._resend.clear()
            self.keepalives_paused = False


def _counted(verb: str, events: int) -> int:
    if events < 1:
        raise EmulatorError(f"{verb}({events}): at least one event")
    return events
