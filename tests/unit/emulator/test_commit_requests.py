"""Commits of a managed stream: joint answers and the deadline."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.grpc.commit_requests import CommitOutcome, PendingCommits
from airflow_provider_sfevents.emulator.grpc.credit_flow import AnswerCommits, Keepalive
from airflow_provider_sfevents.emulator.knobs import Knobs


def _outcome(request_id: str, error: str = "") -> CommitOutcome:
    return CommitOutcome(request_id, b"", error, 0)


def _commits() -> PendingCommits:
    return PendingCommits(
        knobs=Knobs(commit_response_seconds=1.0, commit_deadline_seconds=100.0), at=0.0
    )


def test_the_answer_comes_a_second_after_the_first_commit() -> None:
    """Later commits do not delay the answer to the first one."""
    commits = _commits()
    assert (commits.left(0.0), commits.next_step(0.0, Keepalive())) == (100.0, Keepalive())
    commits.received(_outcome("a"), 10.0)
    commits.received(_outcome("b"), 10.9)
    assert commits.left(10.9) == pytest.approx(0.1)
    assert commits.next_step(10.9, Keepalive()) == Keepalive()
    assert commits.next_step(11.0, Keepalive()) == AnswerCommits()
    assert [one.request_id for one in commits.take()] == ["b"]
    assert commits.next_step(11.0, Keepalive()) == Keepalive()


def test_failures_have_answers_of_their_own() -> None:
    """Successful commits share an answer, a failed one has its own, all in order."""
    commits = _commits()
    for request_id, error in (("a", ""), ("b", ""), ("c", "no"), ("d", "no"), ("e", ""), ("f", "")):
        commits.received(_outcome(request_id, error), 1.0)
    assert [one.request_id for one in commits.take()] == ["b", "c", "d", "f"]
    assert commits.take() == []


def test_the_deadline_runs_from_the_last_commit() -> None:
    """Each commit restarts the deadline; after it the stream is closed."""
    commits = _commits()
    commits.received(_outcome("a", "no"), 99.0)
    commits.take()
    assert commits.next_step(198.9, Keepalive()) == Keepalive()
    commits.received(_outcome("b"), 198.9)
    with pytest.raises(
        RefusalError, match="No CommitReplayRequests sent in the last 100 seconds"
    ) as error:
        commits.next_step(299.0, Keepalive())
    assert (error.value.status, error.value.code) == ("DEADLINE_EXCEEDED", "")
