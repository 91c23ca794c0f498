"""Commits of one stream: due answers, joint answers, and the deadline for the next commit.

Answers come about a second later, several commits may share one (the last values), and a failure
does not end the stream (Managed Subscribe RPC page, live logs). Here a failure has an answer of its
own, so that a client does not miss it.
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
    """Result of one CommitReplayRequest.

    :param error: reason of the failure; empty on success.
    :param received_ms: time of receipt by the org's clock, in milliseconds since the epoch.
    """

    request_id: str
    replay_id: bytes
    error: str
    received_ms: int


class PendingCommits:
    """Pending commits of one stream. Times are seconds of a monotonic clock.

    :param at: start of the stream and of the deadline for its first commit.
    """

    def __init__(self, *, knobs: Knobs, at: float) -> None:
        self._knobs = knobs
        self._last = at
        self._due: float | None = None
        self._waiting: list[CommitOutcome] = []

    def received(self, outcome: CommitOutcome, at: float) -> None:
        """Record a commit, successful or not; commits that follow until then share its answer."""
        self._last = at
        if self._due is None:
            self._due = at + self._knobs.commit_response_seconds
        if self._waiting and not (outcome.error or self._waiting[-1].error):
            self._waiting[-1] = outcome
        else:
            self._waiting.append(outcome)

    def take(self) -> list[CommitOutcome]:
        """Take the results to answer now."""
        waiting, self._waiting, self._due = self._waiting, [], None
        return waiting

    def left(self, at: float) -> float:
        """Seconds until the next answer or the deadline."""
        ends = [self._ends] if self._due is None else [self._ends, self._due]
        return max(0.0, min(ends) - at)

    def next_step(self, at: float, step: Step) -> Step:
        """Decide on the next step.

        :raises RefusalError: no commit has come within the deadline.
        """
        if at >= self._ends:
            raise RefusalError(
                self._knobs.commit_deadline_code,
                "DEADLINE_EXCEEDED",
                f"No CommitReplayRequests sent in the last {self._knobs.commit_deadline_seconds:g} "
                "seconds. "
                "Closing managed subscription.",
            )
        return AnswerCommits() if self._due is not None and at >= self._due else step

    @property
    def _ends(self) -> float:
        return self._last + self._knobs.commit_deadline_seconds
