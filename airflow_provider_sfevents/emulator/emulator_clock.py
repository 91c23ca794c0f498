"""Clock of the emulator: the machine's time plus what a test has added."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Python has no date after 9999; filters and retention add days to the clock's time."""


class EmulatorClock:
    """Clock for retention, token life and event times; keepalives and other waits use real time.

    :param start: fixed time, moved only by `advance`; the machine's time if not given.
    """

    def __init__(self, start: datetime | None = None) -> None:
        if start is not None and start.tzinfo is None:
            raise ValueError(
                f"EmulatorClock(start={start!r}) has no time zone; give an aware datetime, say "
                "with tzinfo=UTC"
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
        """Time as clients see it: without the time added by `advance`."""
        return self._start or datetime.now(UTC)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Move the clock forward, for example past the 72 hours of retention.

        :raises ValueError: the step goes back, or beyond the year 8999.
        """
        try:
            step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            step = timedelta.max
        if step < timedelta():
            raise ValueError(f"EmulatorClock.advance goes forward only, not by {step}")
        with self._lock:
            if step > _LATEST - self.unmoved() - self._ahead:
                raise ValueError("EmulatorClock.advance: the clock ends with the year 8999")
            self._ahead += step
