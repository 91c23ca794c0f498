"""Actions of the page: what each will do, in a sentence, and the doing.

1. A position is moved only as it stood when the user saw it, and while no task of it runs. Its
   staging area is not asked: a task that holds the coming batch finds another epoch at its next
   step and gives way (`record.advance`).
2. A batch is landed again by clearing the task instance that landed it, as in Airflow's own pages.
3. Each action is written to Airflow's audit log, with the position before and after.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.models.log import Log
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_sfevents.commands import next_run
from airflow_provider_sfevents.commands.asset_rows import AssetRow
from airflow_provider_sfevents.commands.tasks import task_clearing
from airflow_provider_sfevents.commands.variable_rows import VariableRow, told
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from airflow_provider_sfevents.commands.tasks.task_states import TaskState
    from airflow_provider_sfevents.positions.activity import Commit
    from airflow_provider_sfevents.ui.position_views import Kept

PLACES = 5
"""Number of batches whose ends a position can go back to on the page."""

MOVE = "sfevents.position.move"
"""Event of a move in Airflow's audit log."""

_ENTRIES = 50  # of the log that are looked at; those of other topics of the consumer count, too


def moves(position: Position) -> list[dict[str, Any]]:
    """List where a position can be moved to: a label, the start, and what will happen."""
    places = [
        (f"Go back to the end of batch {one.batch_number}", one.replay_id)
        for one in reversed(position.recent[-1 - PLACES : -1])
    ]
    places += [
        ("Begin at the earliest event", EARLIEST.to_text()),
        ("Skip to new events", LATEST.to_text()),
    ]
    return [
        {
            "label": label,
            "start": start,
            "says": [*next_run.meaning(start), *next_run.loss_of_move(position, start)],
        }
        for label, start in places
    ]


def moved(position: Position) -> list[dict[str, Any]]:
    """List the last moves of a position by the page, newest first, from Airflow's audit log."""
    consumer = json.dumps(position.consumer)
    statement = (
        select(Log.dttm, Log.owner, Log.extra)
        .where(Log.event == MOVE, Log.extra.contains(consumer, autoescape=True))
        .order_by(Log.id.desc())
        .limit(_ENTRIES)
    )
    with told("The audit log", "read"), create_session() as session:
        rows = [(at, user, json.loads(extra)) for at, user, extra in session.execute(statement)]
    whose = (position.org_id, position.consumer, position.topic)
    return [
        {"at": at.isoformat(), "user": user, "before": of["before"], "after": of["after"]}
        for at, user, of in rows
        if (of["org_id"], of["consumer"], of["topic"]) == whose
    ]


def landing_again(commit: Commit) -> str:
    """Describe the landing of a batch once more."""
    return (
        f"The task {commit.task} of run {commit.run} is cleared and lands batch "
        f"{commit.batch_number} ({counted(commit.events, 'event')}) again, which replaces its "
        "rows. Nothing is fetched, and the position stays. If the batch is not staged any more, "
        "the task fails and changes nothing."
    )


def check_unmoved(position: Position, tasks: TaskState, epoch: str, batch_number: int) -> None:
    """Check that a position is as its user saw it, and that no task of it runs.

    :raises PositionConflictError: it has moved, or a task runs.
    """
    if (position.epoch, position.batch_number) != (epoch, batch_number):
        raise PositionConflictError(
            f"The position has moved meanwhile: it is at batch {position.batch_number} of epoch "
            f"{position.epoch}. Nothing was changed. Look at it again, then decide."
        )
    if tasks.running:
        raise PositionConflictError(
            f"Run {tasks.running} of DAG {position.committed_by.dag} is at work on this position. "
            "Nothing was changed. Let it finish, or end it."
        )


def move(kept: Kept, position: Position, start: str, user: str) -> str:
    """Begin a new epoch of a position at another start; returns a sentence with the result.

    :param user: name, for the audit log.
    :raises ConfigurationError: the start is none.
    """
    at = datetime.now(UTC).isoformat()
    begun = record.begin(
        org_id=position.org_id,
        instance_url=position.instance_url,
        topic=position.topic,
        consumer=position.consumer,
        start=ReplayPoint.from_text(start).to_text(),
        at=at,
        by=Run(),
        previous_epoch=position.epoch,
        losses=next_run.losses_after(position, start, at),
        transport=position.transport,
    )
    at_start = replace(
        begun,
        owner=position.owner,
        previous_batch_number=position.batch_number,
        losses_acknowledged=position.losses_acknowledged,
    )
    _replace(kept, position, at_start)
    log(MOVE, user, position, after=at_start)
    return f"The position continues at {start!r}, in epoch {at_start.epoch}."


def _replace(kept: Kept, position: Position, moved_to: Position) -> None:
    """Write a position in place of the one that was checked; of two users at once one is refused.

    :raises PositionConflictError: it is another one by now.
    """
    whose = (position.org_id, position.consumer, position.topic)
    store = AssetRow(*whose) if kept.store == "asset" else VariableRow(*whose[1:])
    before, record = store.get(), moved_to.to_json()
    there = Position.from_json(before, store.where) if before else None
    if (
        not there
        or (there.epoch, there.batch_number) != (position.epoch, position.batch_number)
        or not store.replace(before or "", record)
    ):
        raise PositionConflictError(
            f"{store.where} was written by a task or another user meanwhile. Nothing was changed. "
            "Look at it again, then decide."
        )
    if store.get() != record:
        raise PositionConflictError(f"{store.where} does not read as written. {store.advice}")


def land_again(position: Position, commit: Commit, user: str) -> str:
    """Clear the task instance that landed a batch; returns a sentence with the result.

    :raises ConfigurationError: the run is gone, or its task is at work.
    """
    fetching = position.owner.removeprefix(f"{commit.dag}.") or commit.task
    run = Run(dag=commit.dag, run=commit.run, task=fetching, map_index=commit.map_index)
    clearing = task_clearing.find(run, commit.batch_id, downstream=False)
    said = clearing.clear()
    log("sfevents.batch.land_again", user, position, batch_id=commit.batch_id)
    return f"{clearing.describe()} {said}"


def commit_of(position: Position, batch_id: str) -> Commit:
    """Return the recent commit of a batch.

    :raises ConfigurationError: the position does not remember it.
    """
    for one in position.recent:
        if one.batch_id == batch_id:
            return one
    raise ConfigurationError(
        f"The position does not remember batch {batch_id}: it keeps the last commits only. Use "
        "`airflow sfevents batches reland`."
    )


def log(
    event: str, user: str, before: Position, *, after: Position | None = None, batch_id: str = ""
) -> None:
    """Write an action to Airflow's audit log."""
    extra = {
        "org_id": before.org_id,
        "consumer": before.consumer,
        "topic": before.topic,
        "before": _place(before),
        **({"after": _place(after)} if after else {}),
        **({"batch_id": batch_id} if batch_id else {}),
    }
    with told("The audit log", "written"), create_session() as session:
        session.add(
            Log(
                event=event,
                owner=user,
                dag_id=before.committed_by.dag or None,
                extra=json.dumps(extra),
            )
        )


def _place(position: Position) -> dict[str, Any]:
    return {
        "epoch": position.epoch,
        "batch_number": position.batch_number,
        "replay_id": position.replay_id,
    }
