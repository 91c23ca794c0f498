"""Next step of a Subscribe stream: credit, timers, closing. Pure.

Rules (Subscribe RPC page and flow control page of the Pub/Sub API guide; live logs for 5):
1. outstanding = requested minus delivered, at most 100; a request beyond that has no effect;
2. with events and credit: send as many events as the next response holds;
3. with credit and nothing to send: silence, then a keepalive, which takes no credit;
4. without credit: 60 s from the last response, then the server closes;
5. after the client's half-close: no further message, a moment later the end with OK, even if events
   are pending.
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
    """Send up to this number of events."""

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
    """Wait for input, at most this long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AnswerCommits:
    """Answer the waiting commits; managed subscriptions only."""


Step = Send | Keepalive | Close | Wait | AnswerCommits


class CreditFlow:
    """Credit and timers of one stream. Times are seconds of a monotonic clock.

    :param sizes: random source for the number of events in a response.
    """

    def __init__(self, *, knobs: Knobs, sizes: random.Random, at: float) -> None:
        self.pending = 0
        self._knobs = knobs
        self._sizes = sizes
        self._last_response_at = at
        self._half_closed_at: float | None = None

    @property
    def closing(self) -> bool:
        """True if the client has half-closed."""
        return self._half_closed_at is not None

    def request(self, num_requested: int) -> None:
        """Add credit for more events.

        :raises RefusalError: zero or less, or more than the limit with the knob
            `over_limit="reject"`.
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
        """Record a response with this number of events."""
        self.pending -= events
        self._last_response_at = at

    def next_step(self, at: float, *, ready: bool) -> Step:
        """Decide on the next step.

        :param ready: the topic has an event that this stream has not sent.
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
