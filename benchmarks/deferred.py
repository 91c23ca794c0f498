"""Put deferred tasks into an Airflow's database, each with its trigger.

The tasks look as if each had run and had deferred itself, because a triggerer drops a trigger
without a waiting task. `python -m benchmarks.deferred` runs with the environment of that Airflow,
once or more often, and reads from its standard input what `Triggers` holds.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DAG_ID, RUN_ID, TASK_ID = "idle", "idle", "wait"
DATE = datetime(2026, 1, 1, tzinfo=UTC)
STATE = "deferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """Triggers of one class.

    :param arguments: of each.
    :param connections: that they need, by id.
    """

    classpath: str
    arguments: list[dict[str, Any]]
    connections: dict[str, dict[str, Any]] = field(default_factory=dict)

    def defer(self, environment: Mapping[str, str]) -> None:
        """Put them into the database of the Airflow that has this environment.

        :raises SystemExit: with what Airflow said, when it could not.
        """
        ended = run(
            [sys.executable, "-m", __name__],
            input=json.dumps(asdict(self)),
            cwd=Path(__file__).parents[1],
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise SystemExit(f"the tasks were not deferred:\n{ended.stderr[-4000:]}")


def put(triggers: Triggers) -> None:
    """In a process of that Airflow."""
    from airflow.models.connection import Connection
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        for conn_id, values in triggers.connections.items():
            session.add(Connection.from_json(json.dumps(values), conn_id))
        dag_run, task = _run_of_a_dag(session)
        first = session.scalar(select(func.count()).where(TaskInstance.state == STATE))
        for number, arguments in enumerate(triggers.arguments, first):
            instance = TaskInstance(
                task,
                dag_version_id=dag_run.created_dag_version_id,
                run_id=RUN_ID,
                state=STATE,
                map_index=number,
            )
            instance.trigger = Trigger(classpath=triggers.classpath, kwargs=arguments)
            session.add(instance)


def _run_of_a_dag(session: Any) -> tuple[Any, Any]:
    """A run, which is made where it is not there, and its one task."""
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    asked = select(DagRun).where(DagRun.dag_id == DAG_ID)
    if session.scalar(asked) is None:
        _register(session)
    dag = DBDagBag().get_latest_version_of_dag(DAG_ID, session=session)
    found = session.scalar(asked) or _new_run(dag, session)
    return found, dag.get_task(TASK_ID)


def _register(session: Any) -> None:
    """Make the DAG known, as the DAG processor does."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG

    DagBundlesManager().sync_bundles_to_db(session=session)
    session.commit()
    with DAG(DAG_ID, schedule=None, start_date=DATE) as dag:
        EmptyOperator(task_id=TASK_ID)
    bag = DagBag(os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None, session=session)
    session.commit()


def _new_run(dag: Any, session: Any) -> Any:
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    made = dag.create_dagrun(
        run_id=RUN_ID,
        logical_date=DATE,
        data_interval=(DATE, DATE),
        run_after=DATE,
        run_type=DagRunType.MANUAL,
        state="running",
        triggered_by=DagRunTriggeredByType.TEST,
        start_date=DATE,
        session=session,
    )
    session.flush()
    return made


if __name__ == "__main__":
    put(Triggers(**json.load(sys.stdin)))
