"""OpenLineage's events of Airflow and of Spark, from one run of a DAG."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.jars import Jars, or_skip

if TYPE_CHECKING:
    from tests.dags.conftest import Deploy

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "lineage_of_spark"


def test_both_streams_of_events_join(deploy: Deploy) -> None:
    """Spark's run is a child of the task's, and the table is one dataset in both streams."""
    jars = Jars()
    paths = or_skip(lambda: [*jars.delta, *jars.openlineage])
    with deploy(f"{DAG}.py") as here:
        here.keep_lineage()
        here.set(TEST_JARS=",".join(map(str, paths)))
        here.publish(1, 25)
        run = here.run(DAG)
        assert run.state == "success", run.log
        lines = (here.folder / "spark.jsonl").read_text().splitlines()
        of_airflow, of_spark = here.lineage(), [json.loads(line) for line in lines]
        table = ("file", f"{here.lake}/Order__e")

    [done] = [one for one in of_airflow if one["eventType"] == "COMPLETE" and one["outputs"]]
    [job] = {_parent(one) for one in of_spark} - {_name(one) for one in of_spark}
    assert job == _name(done)
    roots = [one["run"]["facets"]["parent"]["root"] for one in of_spark]
    assert {one["run"]["runId"] for one in roots} == {
        done["run"]["facets"]["parent"]["run"]["runId"]
    }
    landed = {
        (one["namespace"], one["name"])
        for event in (*of_airflow, *of_spark)
        for one in event["outputs"]
        if "/_" not in one["name"].removeprefix(str(here.lake))
    }
    assert landed == {table}
    for events in (of_airflow, of_spark):
        assert table[1] in {one["name"] for event in events for one in event["outputs"]}


def _name(event: dict[str, Any]) -> tuple[str, ...]:
    return event["run"]["runId"], event["job"]["namespace"], event["job"]["name"]


def _parent(event: dict[str, Any]) -> tuple[str, ...]:
    """Return the run and the job that an event names as its parent."""
    return _name(event["run"]["facets"]["parent"])
