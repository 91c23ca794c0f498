"""What a PublishStream does while no request is there. Decided here without I/O.

Rules (PublishStream RPC page, Handle Errors page, Salesforce's Node client): a response without results keeps a silent
stream alive, and a stream is swept on which no request with an event came for too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.flow import Keepalive, Wait

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs


@dataclass(frozen=True, slots=True)
class Ends:
    """Sweep the stream."""


class PublishFlow:
    """Times are seconds on any clock that does not go back.

    :param at: when the stream began.
    """

    def __init__(self, *, knobs: Knobs, at: float) -> None:
        self._knobs = knobs
        self._requested_at = at
        self._responded_at = at

    def requested(self, at: float) -> None:
        """A request with events came."""
        self._requested_at = at

    def responded(self, at: float) -> None:
        self._responded_at = at

    def next_step(self, at: float) -> Keepalive | Wait | Ends:
        """Decide what is to be done now."""
        swept = self._requested_at + self._knobs.publish_idle_seconds - at
        silent = self._responded_at + self._knobs.publish_keepalive_seconds - at
        if swept <= 0:
            return Ends()
        return Keepalive() if silent <= 0 else Wait(min(swept, silent))
