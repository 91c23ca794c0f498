"""DAGs and runs in Airflow's database, without a DAG file and without a scheduler."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def register(dag: DAG) -> None:
    """Put a DAG into the database, as the DAG processor does."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))
        session.flush()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("tests", None, [lazy], session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="tests", session=session)


def run_once(dag_id: str, run_id: str, day: int = 1) -> None:
    """A run of a registered DAG that has succeeded."""
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    date = datetime(2026, 1, day, tzinfo=UTC)
    with create_session() as session:
        run = SerializedDagModel.get_dag(dag_id, session=session).create_dagrun(
            run_id=run_id,
            logical_date=date,
            data_interval=(date, date),
            run_after=date,
            run_type=DagRunType.MANUAL,
            state=DagRunState.SUCCESS,
            triggered_by=DagRunTriggeredByType.TEST,
            start_date=date,
            session=session,
        )
        for instance in run.task_instances:
            instance.state = TaskInstanceState.SUCCESS


def states(dag_id: str, run_id: str) -> dict[str, str]:
    """States of a run's tasks, and of the run under its id."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalars(
            select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
        ).one()
        found = {one.task_id: str(one.state) for one in run.task_instances}
        return {**found, run_id: str(run.state)}


def write_task(
    dag: str,
    run: str,
    state: str,
    end: datetime | None,
    heartbeat: datetime | None = None,
    *,
    task: str = "load",
    operator: str = "EmptyOperator",
) -> None:
    """Write an instance of a task to the database, with its run."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import insert

    now = datetime.now(UTC)
    of_run = {"dag_id": dag, "run_id": run}
    with create_session() as session:
        session.execute(
            insert(DagRun).values(
                **of_run,
                run_type="manual",
                state="running",
                run_after=now,
                log_template_id=1,
                clear_number=0,
                span_status="not_started",
                updated_at=now,
            )
        )
        session.execute(
            insert(TaskInstance).values(
                **of_run,
                task_id=task,
                map_index=-1,
                operator=operator,
                state=state,
                end_date=end,
                last_heartbeat_at=heartbeat,
                **_FILLED,
            )
        )


_FILLED = {
    "try_number": 1,
    "max_tries": 0,
    "pool": "default_pool",
    "pool_slots": 1,
    "executor_config": {},
    "span_status": "not_started",
}
