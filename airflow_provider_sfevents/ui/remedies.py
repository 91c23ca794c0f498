"""Remedies of the page beside moves: release, acknowledge, forget, flush, entity snapshot.

1. A remedy that the page's server can carry out has a path; the others have a command, and the
   reason why it is needed.
2. A flush and an entity snapshot are runs of a DAG that Airflow has. A position has no other way to
   them: their tasks know the tables and Spark.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import AirflowException
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select

from airflow_provider_sfevents.commands.output import invocation
from airflow_provider_sfevents.commands.position import ACKNOWLEDGING, describe_loss
from airflow_provider_sfevents.commands.tasks.stored_tasks import snapshot_tasks
from airflow_provider_sfevents.commands.tasks.task_states import known_dags
from airflow_provider_sfevents.commands.variable_rows import told
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.doctor.position_alerts import open_losses
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from airflow_provider_sfevents.ui import staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.commands.tasks.stored_tasks import StoredTask
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.ui.position_views import Kept

_EXAMPLE = "salesforce_records_snapshot"  # the DAG of this name is one of the package's examples

_CHANNEL = ("/data/ChangeEvents", "__chn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One remedy.

    :param path: of the API; empty: it cannot be carried out from here, and `command` does it.
    :param dag: DAG whose rights it needs; empty: those of the position's store.
    :param conf: of the run that it starts.
    """

    name: str
    label: str
    says: tuple[str, ...]
    path: str = ""
    command: str = ""
    dag: str = ""
    conf: dict[str, Any] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Return what the page needs."""
        return {
            "name": self.name,
            "label": self.label,
            "says": list(self.says),
            "path": self.path,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """The remedies of a position.

    :param batch: the batch after it; None: the staging area is not seen.
    :param unseen: the reason for that.
    """

    offered: tuple[Remedy, ...]
    batch: BatchOverview | None = None
    unseen: str = ""


def find(kept: Kept, position: Position, task: StoredTask | None) -> Remedies:
    """Look at the batch after a position once, and list the remedies.

    :param task: the one that fetches; None: Airflow has no such task.
    """
    args = staged.arguments(kept, position, task)
    command = partial(invocation, args)
    try:
        seen = staged.reach(kept, position, task)
    except staged.UnseenError as error:
        why = f"{error} Run the command where the area is seen."
        last = None
        batch, unseen = None, str(error)
    else:
        why, unseen = "", ""
        batch, last = seen.look(position), seen.look(position, after=0)
    offered = [
        *_release(position, batch, why, command, task),
        *_acknowledge(position, why, command),
        _forget(why, command),
        *_flush(position, task, last, seen=not why),
        *_snapshot(position, task),
    ]
    return Remedies(offered=tuple(offered), batch=batch, unseen=unseen)


def _release(
    position: Position,
    batch: BatchOverview | None,
    why: str,
    command: Callable[..., str],
    task: StoredTask | None,
) -> Iterator[Remedy]:
    if batch is not None and batch.verdict is LeaseState.FREE:
        return
    batch_id = f"{position.epoch}-{position.batch_number + 1}"
    held = f"It is held by {batch.describe_holder()}." if batch else ""
    doing = (
        f"The lease of batch {batch_id} is released, so that the next run takes the batch.",
        *filter(None, (held,)),
        "If its holder is at work, which may take half a minute to see, nothing is changed.",
    )
    yield Remedy(
        name="release",
        label=f"Release batch {batch_id}",
        says=(why,) if why else doing,
        path="" if why else "lease/release",
        command=command("batches", "release", batch_id) if why else "",
        dag=task.dag if task else position.committed_by.dag,
    )


def _acknowledge(position: Position, why: str, command: Callable[..., str]) -> Iterator[Remedy]:
    if not (losses := open_losses(position, datetime.now(UTC))):
        return
    yield Remedy(
        name="acknowledge",
        label=f"Acknowledge {counted(len(losses), 'loss window')}",
        says=(why,) if why else (*map(describe_loss, losses), ACKNOWLEDGING),
        path="" if why else "position/acknowledge",
        command=command("position", "acknowledge") if why else "",
    )


def _forget(why: str, command: Callable[..., str]) -> Remedy:
    return Remedy(
        name="forget",
        label="Forget the position",
        says=(why,) if why else staged.FORGETTING,
        path="" if why else "position/forget",
        command=command("position", "forget") if why else "",
    )


def _flush(
    position: Position, task: StoredTask | None, last: BatchOverview | None, *, seen: bool
) -> Iterator[Remedy]:
    """Offer a run without events, if the last batch may hold back a transaction."""
    if task is None or not position.topic.startswith("/data/"):
        return
    if task.arguments["current_state"] is None and task.operator != "SfEventsFetchOperator":
        return
    kept_back = last.receipt.open_events if last and last.receipt else 0
    if seen and not kept_back:
        return
    what = f" ({counted(kept_back, 'event')})" if kept_back else ", if it has one"
    yield Remedy(
        name="flush",
        label="Flush the open transaction",
        says=(
            f"A run of DAG {task.dag} is started. If it finds no event, it applies the open "
            f"transaction of batch {position.batch_number}{what}; otherwise it applies that with "
            "the new events. A sensor before the task waits for events first.",
            *_paused(task.dag),
        ),
        path="run/start",
        dag=task.dag,
    )


def _snapshot(position: Position, task: StoredTask | None) -> Iterator[Remedy]:
    if not position.topic.startswith("/data/"):
        return
    entity = entity_of(position.topic)
    state = _text(task, "current_state")
    if task is not None and task.arguments["current_state"] is None:
        return
    for one in snapshot_tasks() if state else []:
        if _text(one, "current_state") != state:
            continue
        conf = _conf(one, entity)
        if conf is None:
            continue
        names = conf.get("entities") or one.params.get("entities") or [one.arguments["entity"]]
        yield Remedy(
            name=f"snapshot {one.dag}",
            label=f"Read {', '.join(map(str, names))} again",
            says=(
                f"A run of DAG {one.dag} is started: it reads all records of "
                f"{', '.join(map(str, names))} from the org, and corrects the tables in {state} "
                "by them. It takes API requests, and no delivery.",
                *_paused(one.dag),
            ),
            path="run/start",
            dag=one.dag,
            conf=conf,
        )
        return
    wanted = json.dumps({"entities": [entity or "<object>"]})
    yield Remedy(
        name="snapshot",
        label=f"Read {entity or 'an object'} again",
        says=(
            "Airflow has no DAG with an SfEventsEntitySnapshotOperator for these tables that can "
            f"be told the object by its param `entities`. Add one, such as the example {_EXAMPLE}; "
            "then:",
        ),
        command=shlex.join(["airflow", "dags", "trigger", _EXAMPLE, "--conf", wanted]),
    )


def entity_of(topic: str) -> str:
    """Return the object of a topic of change events; empty for a channel of several."""
    name = topic.rpartition("/")[2]
    if topic == _CHANNEL[0] or topic.endswith(_CHANNEL[1]):
        return ""
    custom = name.removesuffix("__ChangeEvent")
    return f"{custom}__c" if custom != name else name.removesuffix("ChangeEvent")


def _conf(task: StoredTask, entity: str) -> dict[str, Any] | None:
    """Return the conf of a run that reads an object; None: the DAG cannot be told."""
    if "entities" in task.params:
        return {"entities": [entity]} if entity else {}
    return {} if entity and task.arguments["entity"] == entity else None


def _text(task: StoredTask | None, name: str) -> str:
    try:
        return (task.argument(name) or "").rstrip("/") if task else ""
    except LookupError:
        return ""


def _paused(dag: str) -> list[str]:
    state = known_dags({dag}).get(dag)
    waits = state is None or state.is_paused
    return ["The DAG is paused: the run begins once it is unpaused."] if waits else []


def start(remedy: Remedy, user: str) -> str:
    """Start the run of a remedy; returns a sentence with the result.

    :raises ConfigurationError: Airflow does not start it.
    :raises PositionConflictError: a run like it is queued or runs.
    """
    if like_it := _active(remedy):
        raise PositionConflictError(
            f"Run {like_it} of DAG {remedy.dag} is queued or running already, for the same. "
            "Nothing was started."
        )
    try:
        with told("The run", "started"):
            run = trigger_dag(
                remedy.dag,
                triggered_by=DagRunTriggeredByType.REST_API,
                triggering_user_name=user,
                conf=remedy.conf,
            )
    except (AirflowException, ValueError) as error:
        raise ConfigurationError(f"DAG {remedy.dag} was not started: {error}") from error
    return f"Run {run.run_id if run else '?'} of DAG {remedy.dag} is queued."


def _active(remedy: Remedy) -> str:
    """Return the run id of an unfinished run with the same configuration; empty: there is none."""
    states = (DagRunState.QUEUED, DagRunState.RUNNING)
    statement = select(DagRun).where(DagRun.dag_id == remedy.dag, DagRun.state.in_(states))
    with told("The runs", "read"), create_session() as session:
        found = [run.run_id for run in session.scalars(statement) if run.conf == remedy.conf]
    return found[0] if found else ""
