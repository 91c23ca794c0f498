"""Tasks as Airflow's database has them, to read the arguments that a DAG's file gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from sqlalchemy import String, cast, select

from airflow_provider_sfevents.commands.variable_rows import told

_SNAPSHOT = "SfEventsEntitySnapshotOperator"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """A task of a DAG in Airflow's database.

    :param params: defaults of the DAG's params.
    """

    dag: str
    task: str
    operator: str
    arguments: dict[str, Any]
    params: dict[str, Any]

    def argument(self, name: str) -> str | None:
        """Return a text argument; None: it was not given.

        :raises LookupError: it is a template, which only a run can render.
        """
        value = self.arguments.get(name)
        if value is not None and (not isinstance(value, str) or "{{" in value or "{%" in value):
            raise LookupError(f"the argument `{name}` of task {self.task} is a template")
        return value


def fetching_task(owner: str) -> StoredTask | None:
    """Return the task that owns a position; None: Airflow has no such task.

    :param owner: `<dag>.<task>`; both may have dots.
    """
    parts = owner.split(".")
    for length in range(len(parts) - 1, 0, -1):
        dag_id, task_id = ".".join(parts[:length]), ".".join(parts[length:])
        with told("DAGs", "read"):
            dag = SerializedDagModel.get_dag(dag_id)
        if dag is not None and dag.has_task(task_id):
            return _stored(dag, dag.get_task(task_id))
    return None


def snapshot_tasks() -> list[StoredTask]:
    """List the tasks that read entity snapshots.

    DAGs that Airflow stores compressed (`[core] compress_serialized_dags`) are not found.
    """
    statement = (
        select(SerializedDagModel.dag_id)
        .where(cast(SerializedDagModel._data, String).contains(_SNAPSHOT))  # noqa: SLF001
        .distinct()
    )
    with told("DAGs", "read"), create_session() as session:
        ids = sorted(session.scalars(statement))
    with told("DAGs", "read"):
        dags = [dag for one in ids if (dag := SerializedDagModel.get_dag(one)) is not None]
    return [_stored(dag, task) for dag in dags for task in dag.tasks if task.task_type == _SNAPSHOT]


def _stored(dag: Any, task: Any) -> StoredTask:
    names = ("staging", "current_state", "entity")
    partial = getattr(task, "partial_kwargs", {})
    return StoredTask(
        dag=dag.dag_id,
        task=task.task_id,
        operator=task.task_type,
        arguments={name: partial.get(name, getattr(task, name, None)) for name in names},
        params=dag.params.dump(),
    )
