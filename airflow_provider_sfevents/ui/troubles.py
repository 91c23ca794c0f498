"""Troubles of a position: the cause, and what mends it. Pure.

1. A trouble is what keeps the position from moving, or events from being complete. A position that
   waits for its next run has none.
2. Causes come before their consequences: a DAG that is gone, then one that does not run, then a
   task that fails, then the age of the replay id.
3. Each names an action of the page, or the command that mends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches.position.position_metrics import duration
from airflow_provider_sfevents.batches.position.remedies import QUARANTINE, of_loss_window
from airflow_provider_sfevents.batches.position.replay_id_age import WORRYING, known_since
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.doctor.position_alerts import open_losses
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.pubsub.topic_names import retention

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from airflow_provider_sfevents.commands.tasks.task_states import DagState, TaskState
    from airflow_provider_sfevents.positions.record import Position

SILENT_TASK = timedelta(minutes=5)
"""Age of a running task's last heartbeat from which it counts as gone; Airflow's default, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One trouble.

    :param cause: sentence.
    :param remedy: sentence: what to do.
    :param command: command line that does it; empty: an action of the page does, or people have to.
    """

    cause: str
    remedy: str
    command: str = ""


def troubles(
    position: Position, store: str, dag: DagState | None, tasks: TaskState, now: datetime
) -> list[Trouble]:
    """Return the troubles of a position, causes first.

    :param store: the position's store, as `position_store`.
    :param dag: the DAG that last committed it; None: it is gone, or no DAG has.
    """
    whose = Whose(
        consumer=position.consumer,
        topic=position.topic,
        store="" if store == "variable" else store,
    )
    return [
        *_of_dag(position, whose, dag),
        *_of_tasks(position, tasks, now),
        *_of_age(position, whose, dag, tasks, now),
        *_of_events(position, whose, now),
    ]


def _of_dag(position: Position, whose: Whose, dag: DagState | None) -> Iterator[Trouble]:
    name = position.committed_by.dag
    if not name:
        return
    if dag is None or dag.is_stale:
        yield Trouble(
            cause=f"DAG {name}, which committed this position last, is not in Airflow any more.",
            remedy="Bring the DAG back. Or, if nothing needs these events, remove the position.",
            command=whose.command("forget").strip("`"),
        )
    elif dag.has_import_errors:
        yield Trouble(
            cause=f"The file of DAG {name} cannot be imported.",
            remedy="Correct the file; Airflow's start page and this command have the error.",
            command="airflow dags list-import-errors",
        )
    elif dag.is_paused:
        yield Trouble(
            cause=f"DAG {name} is paused, so no run fetches events.",
            remedy="Unpause it.",
            command=f"airflow dags unpause {name}",
        )


def _of_tasks(position: Position, tasks: TaskState, now: datetime) -> Iterator[Trouble]:
    if tasks.running and tasks.heartbeat and now - tasks.heartbeat > SILENT_TASK:
        silent = duration(now - tasks.heartbeat)
        yield Trouble(
            cause=f"The task of run {tasks.running} has had no heartbeat for {silent}.",
            remedy="The scheduler ends such tasks, so see that it is alive. The next try goes on "
            "with what is staged.",
            command="airflow jobs check --job-type SchedulerJob",
        )
    elif tasks.failed and not tasks.running:
        times = counted(tasks.failed, "time")
        since = "the last batch" if position.batch_number else "the position began"
        yield Trouble(
            cause=f"Task {tasks.failed_task} has failed {times} since {since}, last in run "
            f"{tasks.failed_run}.",
            remedy="The last lines of its log have the error and its remedy. Then start a run: it "
            "goes on with what is staged, and nothing is fetched twice.",
            command=f"airflow dags trigger {tasks.dag}",
        )


def _of_age(
    position: Position, whose: Whose, dag: DagState | None, tasks: TaskState, now: datetime
) -> Iterator[Trouble]:
    since, kept = known_since(position, None), retention(position.topic)
    if since is None or now - since < kept * WORRYING:
        return
    age, hours = duration(now - since), kept // timedelta(hours=1)
    if now - since >= kept:
        yield Trouble(
            cause=f"The replay id is {age} old, and Salesforce keeps events for {hours} hours: a "
            "run may be refused.",
            remedy="Begin at the earliest event, below: events that have landed do not land again, "
            "and a loss window records what may be missing.",
            command=whose.command("set", "earliest").strip("`"),
        )
    elif dag and not dag.is_paused and not tasks.running and not tasks.failed:
        yield Trouble(
            cause=f"The replay id is {age} old and expires at {hours} hours. No run has committed "
            "since, and none has failed.",
            remedy="Start a run now, and give the DAG a schedule that is shorter than a day.",
            command=f"airflow dags trigger {position.committed_by.dag}",
        )


def _of_events(position: Position, whose: Whose, now: datetime) -> Iterator[Trouble]:
    last = position.recent[-1] if position.recent else None
    if last and last.quarantined:
        yield Trouble(
            cause=f"{counted(last.quarantined, 'event')} of batch {last.batch_number} did not "
            "decode.",
            remedy=QUARANTINE,
        )
    if windows := open_losses(position, now):
        yield Trouble(
            cause=f"A loss window was recorded: {windows[-1].why.rstrip('.')}.",
            remedy=f"{of_loss_window(position.topic)} Then acknowledge the loss window.",
            command=whose.command("acknowledge").strip("`"),
        )
