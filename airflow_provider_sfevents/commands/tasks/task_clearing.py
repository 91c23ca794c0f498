"""Land a batch again by clearing its task instances, as `airflow tasks clear` does.

A cleared task finds that its run has a batch of its own, and lands that batch (`batches.reruns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from airflow_provider_sfevents.commands.variable_rows import told
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.manifest import Run

_CHAIN_BEGINS, _CHAIN_ENDS = "SfEventsFetchOperator", "SfEventsCommitOperator"

_BUSY = (TaskInstanceState.RUNNING, TaskInstanceState.QUEUED, TaskInstanceState.SCHEDULED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """Task instances of one run, by task and map index.

    :param dag: Airflow's, as the scheduler has it.
    :param paused: the DAG is paused, so Airflow starts no task of it now.
    """

    dag: Any
    run: str
    instances: tuple[tuple[str, int], ...]
    paused: bool

    def describe(self) -> str:
        named = ", ".join(
            task if index < 0 else f"{task}[{index}]" for task, index in self.instances
        )
        return f"Of run {self.run} of DAG {self.dag.dag_id}, these are cleared: {named}."

    def clear(self) -> str:
        """Clear them; returns a sentence with the result."""
        with told("The task instances", "cleared"):
            cleared = self.dag.clear(task_ids=list(self.instances), run_id=self.run)
        done = f"{counted(cleared, 'task instance')} cleared."
        if self.paused:
            return (
                f"{done} The DAG is paused, so nothing runs yet: airflow dags unpause "
                f"{self.dag.dag_id}"
            )
        return f"{done} Airflow's scheduler starts them."


def refuse(batch: BatchOverview, position: Position | None, list_command: str) -> None:
    """Refuse a batch that cannot be landed again.

    :param list_command: the command that lists the batches.
    :raises ConfigurationError: the batch is not staged, is held, or is not committed yet.
    """
    if batch.manifest is None:
        raise ConfigurationError(
            f"Batch {batch.batch_id} is not staged: it was swept (`keep_batches`), or it never "
            f"was. List the batches that are kept: {list_command}"
        )
    if batch.held:
        raise ConfigurationError(
            f"Batch {batch.batch_id} is held by {batch.describe_holder()}. Let that task finish, "
            "or end it; then run the command again."
        )
    if (
        position is not None
        and batch.epoch == position.epoch
        and batch.batch_number > position.batch_number
    ):
        raise ConfigurationError(
            f"Batch {batch.batch_id} is not committed yet: the next run lands it by itself. Start "
            f"a run: airflow dags trigger {batch.manifest.run.dag or '<dag>'}"
        )


def find(run: Run, batch_id: str, *, downstream: bool) -> Clearing:
    """Find the task instances to clear, in Airflow's database.

    :param run: the task that staged the batch.
    :param downstream: include the tasks after the staging task.
    :raises ConfigurationError: the run or its DAG is gone, or the task is at work.
    """
    dag = SerializedDagModel.get_dag(run.dag) if run.dag else None
    instances = _instances(run)
    if dag is None or (run.task, run.map_index) not in instances or not dag.has_task(run.task):
        raise ConfigurationError(
            f"Task {run.task or '?'} of run {run.run or '?'} of DAG {run.dag or '?'}, which staged "
            f"batch {batch_id}, is not in Airflow's database any more, so it cannot be "
            "cleared."
        )
    after = _after(dag, run.task, asked=downstream)
    chosen = choose((run.task, run.map_index), after, instances)
    if busy := [task for task, index in chosen if instances[task, index] in _BUSY]:
        raise ConfigurationError(
            f"Task {', '.join(busy)} of run {run.run} is running or about to run. Let it finish, "
            "then run the command again."
        )
    return Clearing(dag=dag, run=run.run, instances=chosen, paused=_is_paused(run.dag))


def choose(
    staging: tuple[str, int], after: Sequence[str], instances: Mapping[tuple[str, int], Any]
) -> tuple[tuple[str, int], ...]:
    """Return the staging task's instance, and the instances of the tasks after it.

    Of each task after it, the instance of the same map index is taken, or all if there is none.

    :param staging: task and map index of the staging task.
    :param instances: all of the run.
    """
    chosen = [staging]
    for task in after:
        of_task = [one for one in instances if one[0] == task]
        same = [one for one in of_task if one[1] == staging[1]]
        chosen += same or sorted(of_task)
    return tuple(chosen)


def _after(dag: Any, task_id: str, *, asked: bool) -> list[str]:
    """Return the ids of the tasks after this one that are cleared with it.

    They are all of them if the task begins a chain or they were asked for; otherwise none.
    """
    task = dag.get_task(task_id)
    after = sorted(
        dag.partial_subset([task_id], include_downstream=True, include_upstream=False).task_ids
    )
    types = {dag.get_task(one).task_type for one in after}
    chain = task.task_type == _CHAIN_BEGINS or _CHAIN_ENDS in types
    return [one for one in after if one != task_id] if chain or asked else []


def _instances(run: Run) -> dict[tuple[str, int], Any]:
    with told("Task instances", "read"), create_session() as session:
        rows = session.execute(
            select(TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state).where(
                TaskInstance.dag_id == run.dag, TaskInstance.run_id == run.run
            )
        )
        return {(task, index): state for task, index, state in rows}


def _is_paused(dag_id: str) -> bool:
    with told("DAGs", "read"), create_session() as session:
        return bool(session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id)))
