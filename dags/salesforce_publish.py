"""Publish orders of another system: one task returns them, the next publishes them.

A retry sends only what is not published yet. An event that is sent twice after a lost answer keeps
its id, by which a consumer drops the duplicate; `salesforce_orders` does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator


@task
def web_shop() -> list[dict[str, Any]]:
    """Return records, as a query or an API would: field names of the event, with values."""
    taken_at = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
    return [
        {
            "Order_Number__c": f"W-{number}",
            "Amount__c": 12.5 * number,
            "Express__c": number == 1,
            "Ordered_At__c": taken_at,
            "Delivery_Date__c": "2026-02-03",
        }
        for number in range(1, 4)
    ]


with DAG(
    "salesforce_publish",
    schedule=timedelta(minutes=15),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    doc_md=__doc__,
    tags=["sfevents"],
):
    SfEventsPublishOperator(
        task_id="publish",
        topic="/event/Order__e",
        records=web_shop(),
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
