"""Options of Spark jobs from the arguments of a task: checked when the DAG is parsed."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator
from airflow_provider_sfevents.operators.job_options import apply_options, landing_options
from airflow_provider_sfevents.operators.maintain import SfEventsMaintainOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import SnapshotOptions
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.options import Options


def follow(**arguments: Any) -> SfEventsToSparkOperator:
    known = {
        "task_id": "follow",
        "topic": "/data/ChangeEvents",
        "table": "s3a://lake/events",
        "table_format": "delta",
        "current_state": "s3a://lake/org",
    }
    return SfEventsToSparkOperator(**{**known, **arguments})


def snapshot(**arguments: Any) -> SfEventsEntitySnapshotOperator:
    known = {
        "task_id": "seed",
        "entity": "Account",
        "current_state": "s3a://lake/org",
        "table_format": "delta",
    }
    return SfEventsEntitySnapshotOperator(**{**known, **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table_format": "parquet"}, "needs? .*MERGE|MERGE"),
        ({"topic": "/event/Order__e"}, "/event/Order__e.*only change events"),
        ({"deletions": "keep"}, "deletions='keep' is not known; give delete or flag"),
        ({"new_entities": "full"}, "new_entities='full' is not known; give unseeded or empty"),
        ({"row_changes": "merge"}, "row_changes='merge' is not known; give rewrite or vectors"),
        (
            {"current_state": "s3:lake"},
            "^current_state='s3:lake' is neither a URL .* nor a name in a catalog",
        ),
        ({"current_state": "s3a://lake/events/"}, "the first is for the records, the second"),
        ({"application": "job.py"}, "application='job.py' runs another"),
        ({"current_state": None, "history": True}, "history: .* there is no current_state"),
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


def test_templates_are_not_checked_when_the_dag_is_parsed() -> None:
    """A location that is a template is not checked at parse time."""
    follow(topic="/data/{{ params.topic }}", current_state="{{ params.state }}")
    snapshot(entity="{{ params.entity }}", current_state="{{ params.state }}")


def test_the_job_gets_the_options_of_the_task() -> None:
    """Arguments of the task are options of its job; None stands for a default."""
    task = follow(cluster_by="event_date", partition_by="none", decimals=None, history=True)
    landing = landing_options(task, "s3a://m.json")
    assert landing == LandingOptions(
        manifest_url="s3a://m.json",
        table="s3a://lake/events",
        table_format="delta",
        partition_by="none",
        cluster_by=("event_date",),
    )
    assert apply_options(task, "s3a://m.json", flush=True) == ApplyOptions(
        manifest_url="s3a://m.json",
        current_state="s3a://lake/org",
        table_format="delta",
        history=True,
        flush=True,
    )


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (SfEventsToSparkOperator, LandingOptions),
        (SfEventsToSparkOperator, ApplyOptions),
        (SfEventsEntitySnapshotOperator, SnapshotOptions),
        (SfEventsMaintainOperator, UpkeepOptions),
    ],
)
def test_arguments_of_operators_have_the_defaults_of_the_options(
    operator: type, kind: type[Options]
) -> None:
    """An argument of an operator has the default of the option of the same name, or None."""
    arguments = inspect.signature(operator).parameters
    shared = [one for one in fields(kind) if one.name in arguments]
    assert len(shared) >= 4
    for one in shared:
        if one.default is not MISSING:
            assert arguments[one.name].default in (one.default, None), one.name


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
def test_a_snapshot_that_cannot_work_is_refused_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    """A wrong argument of an entity snapshot is an error at parse time, before any read."""
    with pytest.raises(ConfigurationError, match=said):
        snapshot(**arguments)
