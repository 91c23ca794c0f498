"""Entity snapshots for the tables of `salesforce_records`: fill new tables, or correct records.

Started by hand. With `entities` alone every record of these objects is read, by the Bulk API; with
`record_ids` too, these records of one object, over REST. While a run of `salesforce_records` writes
the tables, this DAG's tasks wait by their retries.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator

LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
# Paths of Delta's jars, separated by commas. Without them, Spark fetches them from Maven Central.
JARS = os.environ.get("SFEVENTS_LAKE_JARS")


@task
def chosen(params: dict[str, Any]) -> list[dict[str, Any]]:
    """Arguments of each task."""
    ids = params["record_ids"] or None
    return [{"entity": entity, "record_ids": ids} for entity in params["entities"]]


with DAG(
    "salesforce_records_snapshot",
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
    SfEventsEntitySnapshotOperator.partial(
        task_id="snapshot",
        current_state=f"{LAKE}/records",
        table_format="delta",
        jars=JARS,
        packages=None if JARS else "io.delta:delta-spark_4.1_2.13:4.4.0",
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.entity }}",
        retries=3,
        retry_delay=timedelta(minutes=1),
    ).expand_kwargs(chosen())
