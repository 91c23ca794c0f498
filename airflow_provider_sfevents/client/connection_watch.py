"""Bound on the time that a lost connection may take to come back. Pure."""

from __future__ import annotations

from airflow_provider_sfevents.pubsub.auth.connection_checks import check_timeout

NO_LIMIT_SECONDS = 3600.0
"""Seconds of one wait where there is no limit; another wait follows."""


class ConnectionWatch:
    """Watch of one connection, which is lost at the beginning.

    :param timeout_seconds: for the connection to come back; None: no limit.
    :param now: monotonic time in seconds.
    :raises ConfigurationError: the timeout is no positive number.
    """

    def __init__(self, timeout_seconds: float | None, now: float) -> None:
        check_timeout("connection_timeout", timeout_seconds)
        self._timeout = timeout_seconds
        self._lost_at: float | None = now

    def note(self, now: float, *, is_connected: bool) -> None:
        """Note the state of the connection at a time."""
        if is_connected:
            self._lost_at = None
        elif self._lost_at is None:
            self._lost_at = now

    def seconds_left(self, now: float) -> float:
        """Return the seconds for which a reconnect may still be tried, 0 at the least."""
        if self._timeout is None:
            return NO_LIMIT_SECONDS
        since = now if self._lost_at is None else self._lost_at
        return max(0.0, since + self._timeout - now)

    def is_over(self, now: float) -> bool:
        """Return whether the connection has been lost for longer than the timeout."""
        return self._lost_at is not None and self.seconds_left(now) == 0
