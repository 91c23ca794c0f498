"""DAGs of positions, states of their tasks and of waits, and connections in Airflow's database.

One query serves all positions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.jobs.job import Job
from airflow.models.asset import AssetModel, AssetWatcherModel
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import and_, or_, select

from airflow_provider_sfevents.commands.variable_rows import told, variables_of
from airflow_provider_sfevents.positions.ownership import tasks_of
from airflow_provider_sfevents.positions.watch_error import WatchError, watch_error_key

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_provider_sfevents.positions.record import Position

LONGEST = timedelta(days=7)
"""Failures before this time are not counted, so that the query stays small."""

SILENT = timedelta(minutes=1)
"""Age of a triggerer's last heartbeat from which it counts as gone; Airflow's page has the same."""

_OURS = "airflow_provider_sfevents."  # beginning of the class paths of this package

_FETCHING = {"SfEventsToSparkOperator", "SfEventsFetchOperator"}

Instance = tuple[str, str, int, str, str, datetime | None, datetime | None, str | None]
"""DAG, task, map index, run, state, end, last heartbeat and operator of a task instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagState:
    """State of a DAG in Airflow's database.

    :param is_stale: its file has no such DAG any more.
    """

    is_paused: bool = False
    is_stale: bool = False
    has_import_errors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """State of the tasks of a position since its last commit.

    :param dag: DAG of the tasks; empty: it is not known.
    :param running: run id of a task that runs now; empty: none does.
    :param heartbeat: last heartbeat of that task; None: it has had none.
    :param failed: number of failed task instances.
    :param failed_run: run id of the last one of them; `failed_task` is its task.
    """

    dag: str = ""
    running: str = ""
    heartbeat: datetime | None = None
    failed: int = 0
    failed_run: str = ""
    failed_task: str = ""


def known_dags(dags: Collection[str]) -> dict[str, DagState]:
    """Return the states of those of the DAGs that Airflow has."""
    statement = select(
        DagModel.dag_id, DagModel.is_paused, DagModel.is_stale, DagModel.has_import_errors
    ).where(DagModel.dag_id.in_(dags))
    with told("DAGs", "read"), create_session() as session:
        return {
            dag: DagState(is_paused=paused, is_stale=stale, has_import_errors=bool(broken))
            for dag, paused, stale, broken in session.execute(statement)
        }


def known_connections(conn_type: str) -> set[str]:
    """Return the ids of the connections of a type."""
    statement = select(Connection.conn_id).where(Connection.conn_type == conn_type)
    with told("Connections", "read"), create_session() as session:
        return set(session.scalars(statement))


def task_states(positions: Sequence[Position], now: datetime) -> list[TaskState]:
    """Return the states of the positions' tasks, in the order of the positions.

    A position that a watcher or a command wrote names no DAG. Then it is the DAG that is named like
    the consumer, and the only task there that has fetched and is of no other position.
    """
    dags = {position.committed_by.dag or position.consumer for position in positions}
    if not dags:
        return []
    ended = and_(
        TaskInstance.state == TaskInstanceState.FAILED, TaskInstance.end_date > now - LONGEST
    )
    statement = select(
        TaskInstance.dag_id,
        TaskInstance.task_id,
        TaskInstance.map_index,
        TaskInstance.run_id,
        TaskInstance.state,
        TaskInstance.end_date,
        TaskInstance.last_heartbeat_at,
        TaskInstance.operator,
    ).where(
        TaskInstance.dag_id.in_(dags), or_(TaskInstance.state == TaskInstanceState.RUNNING, ended)
    )
    with told("The states of tasks", "read"), create_session() as session:
        rows: list[Instance] = [tuple(row) for row in session.execute(statement)]
    by_task: dict[tuple[str, str, int], list[Instance]] = {}
    for row in rows:
        by_task.setdefault(row[:3], []).append(row)
    taken = {(one.committed_by.dag, task) for one in positions for task in tasks_of(one)}
    return [_state(position, by_task, taken) for position in positions]


def waits(now: datetime) -> dict[str, int]:
    """Count this package's triggers on a triggerer that is alive, and the others (`silent`)."""
    statement = (
        select(Trigger.id, Job.latest_heartbeat)
        .outerjoin(Job, Trigger.triggerer_id == Job.id)
        .where(Trigger.classpath.startswith(_OURS))
    )
    with told("Triggers", "read"), create_session() as session:
        beats = [beat for _, beat in session.execute(statement)]
    alive = sum(beat is not None and now - beat < SILENT for beat in beats)
    return {"alive": alive, "silent": len(beats) - alive}


def watchers(now: datetime) -> list[dict[str, Any]]:
    """List this package's watchers: asset, since when, triggerer, and last error of each."""
    statement = (
        select(
            AssetModel.name,
            AssetWatcherModel.name,
            Trigger,
            Job.hostname,
            Job.latest_heartbeat,
        )
        .join(AssetWatcherModel, AssetWatcherModel.asset_id == AssetModel.id)
        .join(Trigger, AssetWatcherModel.trigger_id == Trigger.id)
        .outerjoin(Job, Trigger.triggerer_id == Job.id)
        .where(Trigger.classpath.startswith(_OURS))
        .order_by(AssetModel.name, AssetWatcherModel.name)
    )
    with told("Watchers", "read"), create_session() as session:
        rows = [
            (asset, watcher, trigger.created_date, _watched(trigger), *job)
            for asset, watcher, trigger, *job in session.execute(statement)
        ]
    errors = _watch_errors([watched for *_, watched, _, _ in rows])
    return [
        {
            "asset": asset,
            "watcher": watcher,
            "consumer": watched[0],
            "topic": watched[1],
            "since": since.isoformat(),
            "error": errors.get(watched),
            "triggerer": host,
            "alive": beat is not None and now - beat < SILENT,
        }
        for asset, watcher, since, watched, host, beat in rows
    ]


def _watched(trigger: Trigger) -> tuple[str, str]:
    """Return consumer and topic of a watcher; empty if its arguments cannot be decrypted here."""
    try:
        kwargs = trigger.kwargs
    except Exception:  # noqa: BLE001 - another key, or another Airflow wrote them
        return "", ""
    return str(kwargs.get("consumer", "")), str(kwargs.get("topic", ""))


def _watch_errors(watched: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the last errors of watchers, by consumer and topic."""
    keys = {watch_error_key(*one): one for one in watched if all(one)}
    found = {key: WatchError.from_json(text) for key, text in variables_of(keys).items()}
    return {keys[key]: asdict(error) for key, error in found.items() if error is not None}


def _instances(
    position: Position,
    by_task: dict[tuple[str, str, int], list[Instance]],
    taken: Collection[tuple[str, str]],
) -> list[Instance]:
    """Find the instances of the fetching and the committing task.

    :param taken: DAGs and tasks of the positions that name theirs.
    """
    by = position.committed_by
    if by.dag:
        known = [(by.dag, task, by.map_index) for task in tasks_of(position)]
        return [row for key in known for row in by_task.get(key, [])]
    found = [
        rows
        for key, rows in by_task.items()
        if key[0] == position.consumer and key[:2] not in taken and rows[0][-1] in _FETCHING
    ]
    return found[0] if len(found) == 1 else []


def _state(
    position: Position,
    by_task: dict[tuple[str, str, int], list[Instance]],
    taken: Collection[tuple[str, str]],
) -> TaskState:
    """Find the state of the fetching and the committing task since the last commit."""
    rows = _instances(position, by_task, taken)
    since = datetime.fromisoformat(position.committed_at)
    running = [
        (run, beat) for *_, run, state, _, beat, _ in rows if state == TaskInstanceState.RUNNING
    ]
    failed = sorted(
        (end, run, task)
        for _, task, _, run, state, end, _, _ in rows
        if state == TaskInstanceState.FAILED and end is not None and end > since
    )
    run, heartbeat = running[0] if running else ("", None)
    _, failed_run, failed_task = failed[-1] if failed else (None, "", "")
    return TaskState(
        dag=position.committed_by.dag or (rows[0][0] if rows else ""),
        running=run,
        heartbeat=heartbeat,
        failed=len(failed),
        failed_run=failed_run,
        failed_task=failed_task,
    )
