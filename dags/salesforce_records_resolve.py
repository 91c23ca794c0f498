"""Full records from the org into the tables of `salesforce_records`: to fill new ones, and to make marked ones right again.

Started by hand. With `entities` alone every record of these objects is read, by the Bulk API; with `record_ids` too, these records of the one
object, over REST. What a run of `salesforce_records` is writing meanwhile it waits for, by its retries.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_sfevents.operators.resolve import SfEventsResolveOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
# Paths of Delta's jars, with commas between them. Without, Spark fetches them from Maven Central at the first run.
JARS = os.environ.get("SFEVENTS_LAKE_JARS")


@task
def chosen(params: dict[str, Any]) -> list[dict[str, Any]]:
    """What each of the tasks reads."""
    ids = params["record_ids"] or None
    return [{"entity": entity, "record_ids": ids} for entity in params["entities"]]


with DAG(
    "salesforce_records_resolve",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    params={
        "entities": Param(["Account", "Contact", "Opportunity"], type="array"),
        "record_ids": Param([], type="array", description="of one entity; empty: all its records"),
    },
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsResolveOperator.partial(
        task_id="resolve",
        current_state=f"{LAKE}/records",
        table_format="delta",
        jars=JARS,
        packages=None if JARS else "io.delta:delta-spark_4.1_2.13:4.4.0",
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.entity }}",
        retries=3,
        retry_delay=timedelta(minutes=1),
    ).expand_kwargs(chosen())
