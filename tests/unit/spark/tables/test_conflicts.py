"""Retries of commits that other writers came before, with errors of the texts that Spark gives."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.spark.tables.merging.conflicts import ConflictsError, retry_conflicts

CONCURRENT = "[DELTA_CONCURRENT_APPEND] Transaction conflict detected."
NO_COMMIT = "[DELTA_TABLE_NOT_FOUND] Delta table `/my lake/Order__e` doesn't exist. SQLSTATE: 42P01"


def test_a_commit_is_tried_again_after_a_conflict_and_after_no_other_error() -> None:
    """A conflict is retried, another job's creation of the table too; another error is raised."""
    errors = [CONCURRENT, NO_COMMIT]
    pauses: list[float] = []

    def act() -> str:
        if errors:
            raise RuntimeError(errors.pop(0))
        return "committed"

    assert retry_conflicts(act, "", pauses.append) == "committed"
    assert len(pauses) == 2

    errors.append("[DIVIDE_BY_ZERO]")
    with pytest.raises(RuntimeError, match="DIVIDE_BY_ZERO"):
        retry_conflicts(act, "", pauses.append)
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("conflict", "said"),
    [
        (CONCURRENT, "^Others kept committing.$"),
        (NO_COMMIT, "^The folder /my lake/Order__e holds no commit of a .* remove the folder, in"),
    ],
)
def test_a_task_that_gives_up_says_why_and_the_remedy(conflict: str, said: str) -> None:
    """A folder whose creation was killed is named, because no try gets past it."""

    def act() -> None:
        raise RuntimeError(conflict)

    with pytest.raises(ConflictsError, match=said):
        retry_conflicts(act, "Others kept committing.", lambda _: None)
