from __future__ import annotations

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.positions.record_text import xcom_key
from airflow_provider_sfevents.positions.xcom import KEPT_ROWS
from tests.unit.positions.building import TOPIC, begun

if TYPE_CHECKING:
    from tests.harness.airflow_home import AirflowHome

pytestmark = pytest.mark.airflow

DAG = """
    import pendulum
    from airflow.sdk import dag, get_current_context, task

    from airflow_provider_sfevents.positions import stores
    from airflow_provider_sfevents.positions.asset import topic_asset
    from airflow_provider_sfevents.positions.store_choice import open_store
    from tests.unit.positions.building import ORG, TOPIC, batch_after, begun
    from airflow_provider_sfevents.positions.record import advance
    from airflow_provider_sfevents.staging.manifest import Run

    def now():
        return pendulum.now("UTC").isoformat()

    def move(spec):
        context = get_current_context()
        store = open_store(spec, org_id=ORG, consumer="load", topic=TOPIC, context=context)
        position = stores.read(store)
        moved = begun()
        if position is not None:
            moved = advance(position, batch_after(position), now(), Run())
        stores.write(store, moved)
        if spec == "xcom" and position is not None and context["ti"].try_number == 1:
            raise RuntimeError("killed after the position was written")
        return moved.batch_number

    @dag(schedule=None, start_date=pendulum.datetime(2026, 1, 1))
    def positions():
        for spec in ("variable", "asset", "xcom"):
            inlets = [topic_asset(ORG, TOPIC)]
            task(task_id=spec, inlets=inlets, retries=1, retry_delay=0)(move)(spec)

    positions()
"""


def test_each_store_carries_a_position_from_run_to_run(
    airflow_home: AirflowHome, repository: object
) -> None:
    """In a real Airflow, a run continues after the last run, and a retry after its first try."""
    airflow_home.environment["PYTHONPATH"] = str(repository)
    (airflow_home.dags / "positions.py").write_text(dedent(DAG))
    for day, expected in (
        (1, {"variable": 0, "asset": 0, "xcom": 0}),
        (2, {"variable": 1, "asset": 1, "xcom": 2}),
    ):
        run = airflow_home.test_dag("positions", f"2026-01-0{day}")
        moved = {task: airflow_home.xcom("positions", run.run_id, task) for task in run.tasks}
        assert moved == expected, run.log
    kept = json.loads(airflow_home.variable("sfevents.load.event.Order__e") or "")
    assert (kept["batch_number"], kept["events_total"]) == (1, 3)


@pytest.mark.full  # two more runs of a DAG in a process of their own
def test_a_position_that_airflow_does_not_give_back_is_not_taken_for_written(
    airflow_home: AirflowHome, repository: object
) -> None:
    """A hidden Variable fails the first write by its name; purged XComs read as no position."""
    shadow = "AIRFLOW_VAR_SFEVENTS.LOAD.EVENT.ORDER__E"
    airflow_home.environment |= {"PYTHONPATH": str(repository), shadow: begun().to_json()}
    (airflow_home.dags / "positions.py").write_text(dedent(DAG))
    run = airflow_home.test_dag("positions", "2026-01-01")
    assert {task: state for task, state in run.tasks.items() if state != "success"} == {
        "variable": "failed"
    }, run.log
    assert "reads something else right after it was written" in run.log
    assert f"remove the environment variable {shadow}" in run.log
    del airflow_home.environment[shadow]
    airflow_home.command(
        "db",
        "clean",
        "--yes",
        "--skip-archive",
        "--tables",
        "xcom",
        "--clean-before-timestamp",
        "2100-01-01",
    )
    run = airflow_home.test_dag("positions", "2026-01-02")
    assert airflow_home.xcom("positions", run.run_id, "xcom") == 0, run.log


WRITERS = """
    import pendulum
    from airflow.sdk import chain, dag, get_current_context, task

    from airflow_provider_sfevents.positions import stores
    from airflow_provider_sfevents.positions.store_choice import open_store
    from airflow_provider_sfevents.positions.record import advance
    from airflow_provider_sfevents.staging.manifest import Run
    from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

    NAMES = [f"t{number}" for number in range(7)]

    def move():
        context = get_current_context()
        store = open_store(
            "xcom", org_id=ORG, consumer="load", topic=TOPIC, context=context, tasks=NAMES
        )
        position = stores.read(store)
        now = pendulum.now("UTC").isoformat()
        moved = begun()
        if position is not None:
            moved = advance(position, batch_after(position), now, Run())
        stores.write(store, moved)
        return moved.batch_number

    @dag(schedule=None, start_date=pendulum.datetime(2026, 1, 1))
    def writers():
        chain(*[task(task_id=name)(move)() for name in NAMES])

    writers()
"""


def test_a_task_removes_the_xcoms_that_earlier_runs_left(
    airflow_home: AirflowHome, repository: object
) -> None:
    """In a real Airflow a task removes its position's old records, also of other runs and tasks."""
    airflow_home.environment["PYTHONPATH"] = str(repository)
    (airflow_home.dags / "writers.py").write_text(dedent(WRITERS))
    runs = [airflow_home.test_dag("writers", f"2026-01-0{day}") for day in (1, 2)]
    names = [(run.run_id, f"t{number}") for run in runs for number in range(7)]
    batch_numbers = [airflow_home.xcom("writers", run_id, task) for run_id, task in names]
    assert batch_numbers == list(range(14)), runs[-1].log
    key = xcom_key(TOPIC)
    for written in (key, f"{key}.rows"):
        kept = [airflow_home.xcom("writers", *name, written) is not None for name in names]
        assert kept == [False] * 4 + [True] * KEPT_ROWS, runs[-1].log
