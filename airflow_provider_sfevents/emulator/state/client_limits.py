"""How much the service lets clients do at once and in a second. No clock; nobody has published the real thresholds."""

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
    """Counts what happens within a second.

    :param limit: so often in any second; None for as often as one likes.
    :param code: error code for more.
    """

    def __init__(self, limit: int | None, code: str) -> None:
        self._limit = limit
        self._code = code
        self._times: deque[float] = deque()

    def take(self, at: float) -> None:
        """Let it happen once more.

        :param at: seconds on any clock that does not go back.
        :raises RefusalError: when it has happened too often.
        """
        if self._limit is None:
            return
        while self._times and self._times[0] <= at - _SECOND:
            self._times.popleft()
        if len(self._times) >= self._limit:
            raise RefusalError(self._code)
        self._times.append(at)


class ClientSlots:
    """Streams of each org that are open now. Used in the event loop only.

    :param limit: so many for an org; None for as many as one likes.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextmanager
    def holding(self, org_id: str) -> Iterator[None]:
        """Be one of them.

        :raises RefusalError: when there are too many.
        """
        if self._limit is not None and self._open[org_id] >= self._limit:
            raise RefusalError("concurrent.client.limit.exceeded")
        self._open[org_id] += 1
        try:
            yield
        finally:
            self._open[org_id] -= 1


class ClientLimits:
    """What an emulator holds its clients to."""

    def __init__(self, *, calls_per_second: int | None, max_clients: int | None) -> None:
        self.clients = ClientSlots(max_clients)
        self._calls_per_second = calls_per_second
        self._calls: dict[str, RateLimit] = {}

    def call(self, org_id: str, at: float) -> None:
        """Let an org make one more call.

        :raises RefusalError: when it makes too many.
        """
        if self._calls_per_second is not None:
            limit = RateLimit(self._calls_per_second, TOO_MANY_CALLS)
            self._calls.setdefault(org_id, limit).take(at)
