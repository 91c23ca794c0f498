"""Limits of clients: streams at a time, calls per second. No clock.

The real thresholds are not published.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator

TOO_MANY_FETCHES = "service.protection.stream.limit.triggered"
TOO_MANY_CALLS = "service.protection.triggered"
_SECOND = 1.0


class RateLimit:
    """Limit of actions within any one second.

    :param limit: number of actions in any second; None: no limit.
    :param code: error code of the refusal.
    """

    def __init__(self, limit: int | None, code: str) -> None:
        self._limit = limit
        self._code = code
        self._times: deque[float] = deque()

    def take(self, at: float) -> None:
        """Count one more action.

        :param at: seconds of a monotonic clock.
        :raises RefusalError: the limit is exceeded.
        """
        if self._limit is None:
            return
        while self._times and self._times[0] <= at - _SECOND:
            self._times.popleft()
        if len(self._times) >= self._limit:
            raise RefusalError(self._code)
        self._times.append(at)


class ClientSlots:
    """Open streams of each org. Used in the event loop only.

    :param limit: streams per org; None: no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextmanager
    def holding(self, org_id: str) -> Iterator[None]:
        """Count as one open stream.

        :raises RefusalError: the org has reached its limit.
        """
        if self._limit is not None and self._open[org_id] >= self._limit:
            raise RefusalError("concurrent.client.limit.exceeded")
        self._open[org_id] += 1
        try:
            yield
        finally:
            self._open[org_id] -= 1


class ClientLimits:
    """Limits that an emulator imposes on its clients."""

    def __init__(self, *, calls_per_second: int | None, max_clients: int | None) -> None:
        self.clients = ClientSlots(max_clients)
        self._calls_per_second = calls_per_second
        self._calls: dict[str, RateLimit] = {}

    def call(self, org_id: str, at: float) -> None:
        """Count one more call of an org.

        :raises RefusalError: the org makes too many calls.
        """
        if self._calls_per_second is not None:
            limit = RateLimit(self._calls_per_second, TOO_MANY_CALLS)
            self._calls.setdefault(org_id, limit).take(at)
