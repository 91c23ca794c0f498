"""A round trip: records published by tasks, and landed by ours."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.dags.conftest import ORDERS, rows

if TYPE_CHECKING:
    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "salesforce_publish"
MANY = "publishing"
COUNT = 1_500


def result(here: Deployment, dag_id: str, run: DagTest) -> dict[str, Any]:
    assert run.state == "success", run.log
    done = here.airflow.xcom(dag_id, run.run_id, "publish")
    assert isinstance(done, dict)
    return done


def ledger(url: str) -> list[dict[str, Any]]:
    """Accepted events as the publisher reports them, from all tries."""
    files = sorted(Path(unquote(urlsplit(url).path)).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_what_tasks_publish_is_landed_once(deploy: Deploy) -> None:
    """Published events land once, also after a broken stream and a retry."""
    with deploy("salesforce_publish.py", "publishing.py", "salesforce_orders.py") as here:
        done = result(here, DAG, here.run(DAG))
        assert (done["records"], done["published"], done["before"]) == (3, 3, 0)

        lines = [json.dumps({"Order_Number__c": f"M-{number}"}) for number in range(COUNT)]
        (here.folder / "orders.jsonl").write_text("\n".join(lines))
        here.bus.fail_next("PublishStream", after=600, how="rst_stream")
        here.bus.fail_next("PublishStream", after=400, error_code="publish.topic.mismatch")
        run = here.run(MANY)
        many = result(here, MANY, run)
        assert here.tries(run, MANY) == {"publish": 2}
        assert many["before"] > 0
        assert many["published"] + many["before"] == COUNT

        # As after a lost answer to accepted events: the same ids, with other replay ids.
        ids = [line["id"] for line in ledger(many["ledger"])][:5]
        here.bus.publish(ORDERS, [{"Order_Number__c": "again"}] * 5, ids=ids)

        landing = here.run("salesforce_orders")
        assert landing.state == "success", landing.log
        landed = rows(here, "Order__e")
        on_the_bus = here.bus.deliveries(ORDERS)
    assert [row["Order_Number__c"] for row in landed[:3]] == ["W-1", "W-2", "W-3"]
    assert [landed[at]["replay_id"] for at in (0, 2)] == [
        done["first_replay_id"],
        done["last_replay_id"],
    ]
    assert [
        (row["Amount__c"], row["Express__c"], row["Delivery_Date__c"], row["Ordered_At__c"])
        for row in landed[:3]
    ] == [
        (
            12.5 * number,
            number == 1,
            date(2026, 2, 3),
            datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
        )
        for number in (1, 2, 3)
    ]
    assert on_the_bus >= COUNT + 3 + 5
    numbers = [row["Order_Number__c"] for row in landed[3:]]
    assert sorted(numbers) == sorted(f"M-{number}" for number in range(COUNT))
