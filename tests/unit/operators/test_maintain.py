"""Upkeep as a task: arguments are checked when the DAG is parsed, and passed to the job."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators.maintain import SfEventsMaintainOperator, is_dry


def maintain(**arguments: Any) -> SfEventsMaintainOperator:
    known = {"task_id": "maintain", "table": "s3a://lake/events", "table_format": "delta"}
    return SfEventsMaintainOperator(**{**known, **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table": None}, "Neither table nor current_state"),
        ({"table_format": "parquet"}, "table_format='parquet' cannot be maintained"),
        ({"keep_hours": 23}, "keep_hours=23 is too short.*at least 24"),
        (
            {"current_state": "s3:lake"},
            "^current_state='s3:lake' is neither a URL .* nor a name in a catalog",
        ),
        ({"dry_run": "perhaps"}, "dry_run='perhaps' is neither true nor false"),
        ({"application": "job.py"}, "has no effect here"),
    ],
)
def test_arguments_that_cannot_work_are_refused_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    """The error of a wrong argument names it, its value, and what to give instead."""
    with pytest.raises(ConfigurationError, match=said):
        maintain(**arguments)


def test_a_template_is_checked_after_rendering() -> None:
    """A template is not checked at parse time; its rendered text may be true or false."""
    maintain(table="{{ params.table }}", dry_run="{{ params.dry_run }}")
    assert (is_dry("True"), is_dry(" false "), is_dry(False)) == (True, False, False)


def test_the_job_gets_options_that_are_not_the_default() -> None:
    """The job gets the options that are not the default; changes need `--no-dry-run`."""
    said = ["--format", "delta", "--report", "file:/report"]
    assert maintain()._arguments("file:/report") == ["--table", "s3a://lake/events", *said]
    wanted = maintain(table=None, current_state="lake.org", keep_hours=48, dry_run=False)
    assert wanted._arguments("file:/report") == [
        *("--current-state", "lake.org"),
        *("--format", "delta"),
        *("--keep-hours", "48"),
        "--no-dry-run",
        *("--report", "file:/report"),
    ]
