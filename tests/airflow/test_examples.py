"""The DAGs of `dags/` that wait, in a deployment as a user sets them up.

The file is put into the DAGs folder, the DAG is unpaused, and events are published.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from tests.airflow.conftest import Topic
from tests.airflow.watches import listening, run_of, subscriptions, wait_unwatched
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.airflow.conftest import Deployment

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture
def example(here: Deployment, repository: Path) -> Example:
    return Example(here, repository / "dags")


class Example:
    """Puts an example into the deployment."""

    def __init__(self, here: Deployment, folder: Path) -> None:
        self._here = here
        self._folder = folder

    @contextmanager
    def on(self, dag_id: str) -> Iterator[None]:
        """Unpause the DAG for a block, and mark a run that is still at work as failed."""
        airflow = self._here.airflow
        airflow.add_dag(self._folder / f"{dag_id}.py", dag_id)
        with self._here.switched_on(dag_id):
            yield
        for run in airflow.all_runs(dag_id):
            if run.state() == "running":
                airflow.request("PATCH", run.path, {"state": "failed"})


@pytest.mark.spark
def test_one_event_from_the_command_line_starts_one_run(here: Deployment, example: Example) -> None:
    """One event starts one run, whose row lands; `test_triggerer` has a triggerer that dies."""
    orders = _topic(here, "/event/Order__e")
    dag_id = "salesforce_orders_event_driven"
    with example.on(dag_id):
        listening(orders)
        _publish_by_command(here, orders.name, {"Order_Number__c": "A-1"})
        run_of(here, dag_id, 1).wait("success")
        assert len(here.airflow.all_runs(dag_id)) == 1
    wait_unwatched(
        here, dag_id
    )  # otherwise the next test's orders would be delivered to this DAG, too
    subscriptions(orders, 0)
    table = ds.dataset(here.folder / "lake/orders_event_driven/Order__e", partitioning="hive")
    assert table.to_table()["Order_Number__c"].to_pylist() == ["A-1"]
    assert orders.deliveries() == 1


def test_a_schedule_whose_run_begins_when_there_is_something(
    here: Deployment, example: Example
) -> None:
    """The hourly run lands the pending events, each of them delivered once."""
    orders = _topic(here, "/event/Order__e")
    dag_id = "salesforce_orders_sensor"
    before = orders.deliveries()
    happened = here.bus.post("sample", count=20, seed=7)["published"][orders.name]
    with example.on(dag_id):
        run = run_of(here, dag_id, 1)
        assert set(run.wait("success").values()) == {"success"}
    landed = orders.landed(dag_id)
    assert len(landed) == len(set(landed)) >= happened
    assert orders.deliveries() - before == len(landed)


def test_a_run_that_always_waits(here: Deployment, example: Example) -> None:
    """The wait of a continuous run ends with a change, and the next run waits for the next."""
    changes = _topic(here, "/data/ChangeEvents")
    dag_id = "salesforce_changes_deferrable"
    with example.on(dag_id):
        for number in (1, 2):
            run = run_of(here, dag_id, number)
            run.wait_try("wait_for_changes", 1, "deferred")
            listening(changes)
            _change(here, "Account", f"00100000000000{number}AAA")
            assert set(run.wait("success").values()) == {"success"}
        run_of(here, dag_id, 3).wait_try("wait_for_changes", 1, "deferred")
        listening(changes)
    subscriptions(changes, 0)  # the wait of the run that was marked failed
    landed = changes.landed(dag_id)
    assert len(landed) == len(set(landed)) == changes.deliveries()
    assert len(landed) >= 2


def test_many_topics_wait_each_on_its_own(here: Deployment, example: Example) -> None:
    """The mapped group: each topic lands as soon as it has something."""
    names = ("/event/Sales__chn", "/data/AccountChangeEvent", "/data/ContactChangeEvent")
    topics = [_topic(here, name) for name in names]
    dag_id = "salesforce_topics_waiting"
    here.bus.post("events", topic="/event/Order__e", events=[{"Order_Number__c": "A-3"}])
    _change(here, "Account", "001000000000003AAA")
    with example.on(dag_id):
        run = run_of(here, dag_id, 1)
        wait_until(lambda: all(topic.landed(dag_id) for topic in topics[:2]), "two have landed")
        _change(here, "Contact", "003000000000001AAA")
        assert set(run.wait("success").values()) == {"success"}
    for topic in topics:
        landed = topic.landed(dag_id)
        assert len(landed) == len(set(landed)) == topic.deliveries()


def _topic(here: Deployment, name: str) -> Topic:
    return Topic(here=here, name=name, published=[])


def _publish_by_command(here: Deployment, topic: str, event: dict[str, str]) -> None:
    """Publish by the emulator's command line."""
    command = [sys.executable, "-m", "airflow_provider_sfevents.emulator", "publish", topic]
    command += [json.dumps(event), "--state", str(here.folder / "emulator.json")]
    subprocess.run(command, check=True, timeout=60)


def _change(here: Deployment, entity: str, record: str) -> None:
    here.bus.post(
        "changes", entity=entity, change_type="CREATE", record_ids=[record], fields={"Phone": "1"}
    )
