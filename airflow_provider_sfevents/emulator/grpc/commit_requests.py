"""The commits of one stream: when their answer is due, which are answered together, and how long none may come.

Answers come about a second later, several commits may have one (the last values), and a failure does not end the stream
(Managed Subscribe RPC page, live logs). A failure is answered for itself here: who counts on it must not lose it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.grpc.credit_flow import AnswerCommits, Step

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What became of one CommitReplayRequest.

    :param error: why it failed; empty when it did not.
    :param received_ms: when it came in, by the org's clock, in milliseconds since the epoch.
    """

    request_id: str
    replay_id: bytes
    error: str
    received_ms: int


class PendingCommits:
    """Times are seconds on any clock that does not go back.

    :param at: when the stream began; the time for the first commit runs from there.
    """

    def __init__(self, *, knobs: Knobs, at: float) -> None:
        self._knobs = knobs
        self._last = at
        self._due: float | None = None
        self._waiting: list[CommitOutcome] = []

    def received(self, outcome: CommitOutcome, at: float) -> None:
        """A commit came in, good or not; it is answered with those that come until then."""
        self._last = at
        if self._due is None:
            self._due = at + self._knobs.commit_response_seconds
        if self._waiting and not (outcome.error or self._waiting[-1].error):
            self._waiting[-1] = outcome
        else:
            self._waiting.append(outcome)

    def take(self) -> list[CommitOutcome]:
        """What is to be answered now."""
        waiting, self._waiting, self._due = self._waiting, [], None
        return waiting

    def left(self, at: float) -> float:
        """Seconds until there is something to do."""
        ends = [self._ends] if self._due is None else [self._ends, self._due]
        return max(0.0, min(ends) - at)

    def next_step(self, at: float, step: Step) -> Step:
        """Decide what is to be done now, where without commits it would be this step.

        :raises RefusalError: when no commit has come for too long.
        """
        if at >= self._ends:
            raise RefusalError(
                self._knobs.commit_deadline_code,
                "DEADLINE_EXCEEDED",
                f"No CommitReplayRequests sent in the last {self._knobs.commit_deadline_seconds:g} seconds. "
                "Closing managed subscription.",
            )
        return AnswerCommits() if self._due is not None and at >= self._due else step

    @property
    def _ends(self) -> float:
        return self._last + self._knobs.commit_deadline_seconds
