"""Land orders within seconds: events on the topic start the runs, one for each burst.

Nothing runs while there are no events, except the trigger in the triggerer. An event of the asset
says that orders are pending for the consumer, which is this DAG. While a run is at work no other is
started; later events get the next run.

With a connection of type `spark_connect`, named by the environment variable
`SFEVENTS_SPARK_CONNECT`, orders land in a running Spark Connect server, in a table of format Delta;
the pool `server_slots` bounds the tasks at once. Otherwise each run starts its own Spark.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger

SERVER = os.environ.get("SFEVENTS_SPARK_CONNECT")
LAKE = os.environ.get("SFEVENTS_LAKE", str(Path.home() / "sfevents_lake"))
TOPIC = "/event/Order__e"
DAG_ID = "salesforce_orders_event_driven"

PENDING = Asset(
    "salesforce_orders_pending",
    watchers=[AssetWatcher(name="orders", trigger=SfEventsWatchTrigger(TOPIC, consumer=DAG_ID))],
)

with DAG(
    DAG_ID,
    schedule=[PENDING],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsToSparkOperator(
        task_id="land_orders",
        topic=TOPIC,
        # The other examples land this topic too, so this DAG has its own folder.
        table=f"{LAKE}/orders_event_driven",
        table_format="delta" if SERVER else "parquet",
        spark_conn_id=SERVER or "spark_default",
        pool="server_slots" if SERVER else "default_pool",
        idle_seconds=1,
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
