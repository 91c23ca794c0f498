"""One active client for each managed subscription, and how long its slot stays taken after it left. No clock, no lock."""

from __future__ import annotations

from math import inf


class Slots:
    """Times are seconds on any clock that does not go back."""

    def __init__(self) -> None:
        self._taken_until: dict[str, float] = {}

    def take(self, subscription_id: str, at: float) -> bool:
        """Take the slot; False where another client has it, or had it a moment ago."""
        if at < self._taken_until.get(subscription_id, at):
            return False
        self._taken_until[subscription_id] = inf
        return True

    def leave(self, subscription_id: str, at: float, hold: float) -> None:
        """Give the slot back; it is free after so many seconds."""
        self._taken_until[subscription_id] = at + hold

    def taken(self, subscription_id: str, at: float) -> bool:
        return at < self._taken_until.get(subscription_id, at)
