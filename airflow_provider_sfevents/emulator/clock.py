"""What time it is for the emulator: the machine's time, moved forward by the test."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class Clock:
    """Retention, token life and event times follow this clock; keepalives and other waits follow real seconds.

    :param start: where given, time stands still there and only `advance` moves it.
    """

    def __init__(self, start: datetime | None = None) -> None:
        if start is not None and start.tzinfo is None:
            raise ValueError(
                f"Clock(start={start!r}) has no time zone; give an aware datetime, say with tzinfo=UTC"
            )
        self._start = start
        self._ahead = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            return self.unmoved() + self._ahead

    def timestamp(self) -> float:
        """Seconds since the epoch."""
        return self.now().timestamp()

    def unmoved(self) -> datetime:
        """Time the clients see: without what `advance` added."""
        return self._start or datetime.now(UTC)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Move forward, say past the 72 hours of retention."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if step < timedelta():
            raise ValueError(f"Clock.advance goes forward only, not by {step}")
        with self._lock:
            self._ahead += step
