"""What a Subscribe stream does next: credit, timers, closing. Decided here without I/O.

Rules (Subscribe RPC page and flow control page of the Pub/Sub API guide; live logs for 5):
1. outstanding = asked for minus delivered, at most 100; what is asked beyond is as if not asked;
2. with events and credit: send, as many as the next response happens to hold;
3. with credit and nothing to send: silence, then a keepalive, which takes no credit;
4. without credit: 60 s from the last response, then the server closes;
5. after the client's half-close: no further message, a moment later the end with OK, even if events are pending.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import RefusalError

if TYPE_CHECKING:
    import random

    from airflow_provider_sfevents.emulator.knobs import Knobs


@dataclass(frozen=True, slots=True)
class Send:
    """Send up to so many events."""

    events: int


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Send a response without events."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the stream.

    :param status: name of the gRPC status.
    """

    status: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until something comes in, or for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AnswerCommits:
    """Say what became of the commits that wait; only where there are commits."""


Step = Send | Keepalive | Close | Wait | AnswerCommits


class CreditFlow:
    """State of one stream. Times are seconds on any clock that does not go back.

    :param sizes: decides how many events a response holds.
    """

    def __init__(self, *, knobs: Knobs, sizes: random.Random, at: float) -> None:
        self.pending = 0
        self._knobs = knobs
        self._sizes = sizes
        self._last_response_at = at
        self._half_closed_at: float | None = None

    @property
    def closing(self) -> bool:
        """Whether the client has half-closed."""
        return self._half_closed_at is not None

    def request(self, num_requested: int) -> None:
        """Credit for more events.

        :raises RefusalError: for zero or less, and for more than the limit where the knob says so.
        """
        if num_requested <= 0:
            raise RefusalError("subscription.fetch.requested.events.invalid")
        asked = self.pending + num_requested
        if asked > self._knobs.max_outstanding and self._knobs.over_limit == "reject":
            raise RefusalError("subscription.fetch.overflow")
        self.pending = min(asked, self._knobs.max_outstanding)

    def half_close(self, at: float) -> None:
        self._half_closed_at = at

    def responded(self, at: float, events: int = 0) -> None:
        """Response with so many events was sent."""
        self.pending -= events
        self._last_response_at = at

    def next_step(self, at: float, *, ready: bool) -> Step:
        """Decide what is to be done now.

        :param ready: whether the topic has an event this stream has not sent.
        """
        if self._half_closed_at is not None:
            return self._after(
                self._half_closed_at + self._knobs.half_close_seconds - at, Close("OK")
            )
        silent_since = self._last_response_at
        if self.pending == 0:
            return self._after(
                silent_since + self._knobs.idle_close_seconds - at,
                Close(self._knobs.idle_close_status),
            )
        if ready:
            return Send(min(self.pending, self._sizes.randint(*self._knobs.split)))
        return self._after(silent_since + self._knobs.keepalive_seconds - at, Keepalive())

    @staticmethod
    def _after(left: float, step: Step) -> Step:
        return Wait(left) if left > 0 else step
