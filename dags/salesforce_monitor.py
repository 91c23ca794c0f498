"""Tell of positions that need attention, by events of assets.

It looks at all positions every half hour, also at those of DAGs that are paused or fail. Schedule
your alert by `Asset("sfevents_loss_window")`, `Asset("sfevents_expiry_ahead")`,
`Asset("sfevents_repeated_failures")`, or by all of them: `AssetAlias("sfevents_alerts")`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.monitor import SfEventsMonitorOperator

with DAG(
    "salesforce_monitor",
    schedule=timedelta(minutes=30),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsMonitorOperator(task_id="look", retries=2, retry_delay=timedelta(seconds=30))
