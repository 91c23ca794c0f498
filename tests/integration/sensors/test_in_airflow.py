"""Sensor, fetch and commit in a real Airflow with its database, deferred by `dag.test()`."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.harness.airflow_home import AirflowHome

pytestmark = [pytest.mark.airflow, pytest.mark.full]  # two runs of a DAG in processes of their own

DAG = """
    import json
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    import pendulum
    from airflow.sdk import dag, task, task_group
    from airflow_provider_sfevents.operators import chain
    from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

    ORDERS = "/event/Order__e"

    @task
    def land(batch):
        receipt = {
            "batch_id": batch["batch_id"], "events": batch["events"], "quarantined": 0,
            "tables": {"Order__e": batch["events"]}, "written_at": pendulum.now("UTC").isoformat(),
        }
        place = Path(unquote(urlsplit(batch["manifest"]).path)).with_name("receipt.json")
        place.write_text(json.dumps({"version": 1, **receipt}))

    @dag(schedule=None, start_date=pendulum.datetime(2026, 1, 1))
    def waits():
        deferrable = {"deferrable": True}
        for store, mode in (
            ("variable", deferrable), ("xcom", deferrable), ("xcom", {"mode": "poke"}),
        ):
            name = "_".join([store, *map(str, mode)])
            each = {"topic": ORDERS, "consumer": name, "position_store": store, "idle_seconds": 1}
            pace = {"timeout": 60, "poke_interval": 1, "min_events": 2}
            wait = SfEventsSensor(task_id=f"wait_{name}", **pace, **each, **mode)
            fetch = chain.SfEventsFetchOperator(task_id=f"fetch_{name}", **each)
            commit = chain.SfEventsCommitOperator(
                task_id=f"commit_{name}", batch=fetch.output, position_store=store
            )
            wait >> fetch >> land.override(task_id=f"land_{name}")(fetch.output) >> commit

    waits()
"""

CONSUMERS = ("variable_deferrable", "xcom_deferrable", "xcom_mode")


def test_a_sensor_hands_over_in_every_store(
    airflow_home: AirflowHome, bus: Emulator, repository: Path
) -> None:
    """With every store the sensor waits after the last commit, and no event is paid for twice."""
    airflow_home.environment["PYTHONPATH"] = str(repository)
    added = airflow_home.command(
        "connections", "add", "sfevents_default", "--conn-json", bus.connection_json()
    )
    assert added.returncode == 0, added.stdout
    (airflow_home.dags / "waits.py").write_text(dedent(DAG))
    for day in (1, 2):
        bus.publish("/event/Order__e", [{"Order_Number__c": "A-1"}] * 3)
        run = airflow_home.test_dag("waits", f"2026-01-0{day}")
        assert run.state == "success", run.log
        for name in CONSUMERS:
            waited = airflow_home.xcom("waits", run.run_id, f"wait_{name}")
            fetched = airflow_home.xcom("waits", run.run_id, f"fetch_{name}")
            assert (waited["batch_number"], waited["events"] >= 2) == (day, True)
            assert (fetched["batch_id"], fetched["events"]) == (waited["batch_id"], 3)
    assert bus.deliveries() == 6 * len(CONSUMERS)
