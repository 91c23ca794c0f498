"""Options of a task for current-state tables: checked when the DAG is parsed, sent to the job."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators.following import Followed
from airflow_provider_sfevents.operators.resolve import SfEventsResolveOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator


def follow(**arguments: Any) -> SfEventsToSparkOperator:
    known = {
        "task_id": "follow",
        "topic": "/data/ChangeEvents",
        "table": "s3a://lake/events",
        "table_format": "delta",
        "current_state": "s3a://lake/org",
    }
    return SfEventsToSparkOperator(**{**known, **arguments})


def resolve(**arguments: Any) -> SfEventsResolveOperator:
    known = {
        "task_id": "seed",
        "entity": "Account",
        "current_state": "s3a://lake/org",
        "table_format": "delta",
    }
    return SfEventsResolveOperator(**{**known, **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table_format": "parquet"}, "needs? .*MERGE|MERGE"),
        ({"topic": "/event/Order__e"}, "/event/Order__e.*only change events"),
        ({"deletions": "keep"}, "deletions='keep' is not known; give delete or flag"),
        ({"new_entities": "full"}, "new_entities='full' is not known; give unseeded or empty"),
        ({"row_changes": "merge"}, "row_changes='merge' is not known; give rewrite or vectors"),
        ({"current_state": "s3:lake"}, "neither a URL .* nor a name in a catalog"),
        ({"current_state": "s3a://lake/events/"}, "the first is for the records, the second"),
        ({"application": "job.py"}, "application='job.py' runs another"),
        ({"current_state": None, "history": True}, "there is no current_state"),
        ({"current_state": None, "row_changes": "vectors"}, "there is no current_state"),
        ({"current_state": None, "deletions": "flag"}, "there is no current_state"),
        ({"current_state": "", "new_entities": "empty"}, "there is no current_state"),
    ],
)
def test_what_cannot_work_is_refused_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    """A wrong option is one error at parse time, with the argument and the remedy."""
    with pytest.raises(ConfigurationError, match=said):
        follow(**arguments)


def test_templates_are_judged_by_the_job() -> None:
    """A location that is a template is not checked at parse time."""
    follow(topic="/data/{{ params.topic }}", current_state="{{ params.state }}")
    resolve(entity="{{ params.entity }}", current_state="{{ params.state }}")


def test_only_what_is_not_usual_is_told_to_the_job() -> None:
    """Arguments of the job leave out defaults, and are empty without current-state tables."""
    assert Followed(current_state=None).arguments() == []
    assert Followed(current_state="s3a://x").arguments() == ["--current-state", "s3a://x"]
    wanted = Followed(
        current_state="lake.org",
        deletions="flag",
        new_entities="empty",
        history=True,
        row_changes="vectors",
    )
    assert wanted.arguments() == [
        *("--current-state", "lake.org"),
        *("--deletions", "flag"),
        *("--new-entities", "empty"),
        *("--row-changes", "vectors"),
        "--history",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table_format": "parquet"}, "MERGE"),
        ({"entity": "Account; DROP"}, "no object's API name"),
        ({"read_by": "soap"}, "read_by='soap' is not known; give auto or bulk or rest"),
        ({"read_by": "bulk", "record_ids": ["001000000000001AAA"]}, "reads an object as a whole"),
        ({"application": "job.py"}, "has no effect here"),
    ],
)
def test_a_resolve_that_cannot_work_is_refused_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    """A wrong argument of a resolve is refused at parse time, before anything is read."""
    with pytest.raises(ConfigurationError, match=said):
        resolve(**arguments)
