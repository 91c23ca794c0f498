"""Routes of the remedies (`remedies`): the batch after a position, and what mends it.

They are apart from the position's own route, because they read the staging area, which may be slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import APIRouter, Depends, HTTPException

from airflow_provider_sfevents.commands import staged_batches
from airflow_provider_sfevents.commands.tasks.stored_tasks import fetching_task
from airflow_provider_sfevents.ui import actions, remedies, staged
from airflow_provider_sfevents.ui.access import (
    Which,
    as_seen,
    may_edit,
    may_move,
    may_trigger,
    require_move,
    same_origin,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable

router = APIRouter(prefix="/api", dependencies=[Depends(get_user)])


@router.get("/next_batch")
def show_next_batch(
    user: GetUserDep, consumer: str, topic: str, org_id: str = "", store: str = ""
) -> dict[str, Any]:
    """Show the batch after a position, and the remedies that the user may use."""
    kept, position = shown(user, org_id, consumer, topic, store)
    found = remedies.find(kept, position, fetching_task(position.owner))
    batch = found.batch
    allowed = [one for one in found.offered if _may(user, one, may_move(user, kept))]
    return {
        "unseen": found.unseen,
        "batch_id": batch.batch_id if batch else "",
        "state": staged_batches.state(batch, position) if batch else "",
        "events": batch.events if batch else 0,
        "remedies": [one.to_row() for one in allowed],
    }


@router.post("/lease/release", dependencies=[Depends(same_origin)])
def release_lease(user: GetUserDep, asked: Which) -> dict[str, str]:
    """Release the lease of the batch after a position."""
    kept, position = as_seen(user, asked, may_run=True)
    task = fetching_task(position.owner)
    dag = task.dag if task else position.committed_by.dag
    if not dag:
        require_move(user, kept)
    elif not may_edit(user, dag):
        raise HTTPException(403, f"You may not edit DAG {dag}.")
    said = staged.release(staged.reach(kept, position, task), position)
    actions.log("sfevents.lease.release", user.get_name(), position)
    return {"said": said}


@router.post("/position/forget", dependencies=[Depends(same_origin)])
def forget_position(user: GetUserDep, asked: Which) -> dict[str, str]:
    """Forget a position."""
    return _changed(user, asked, staged.forget, "sfevents.position.forget")


@router.post("/position/acknowledge", dependencies=[Depends(same_origin)])
def acknowledge_losses(user: GetUserDep, asked: Which) -> dict[str, str]:
    """Acknowledge the loss windows of a position."""
    return _changed(user, asked, staged.acknowledge, "sfevents.position.acknowledge")


def _changed(
    user: Any, asked: Which, act: Callable[[staged.StagedPosition], str], event: str
) -> dict[str, str]:
    """Change a position's record beside its staging area.

    :param event: of the audit log.
    """
    kept, position = as_seen(user, asked)
    require_move(user, kept)
    said = act(staged.reach(kept, position, fetching_task(position.owner)))
    actions.log(event, user.get_name(), position)
    return {"said": said}


class RunAsked(Which):
    """A remedy of a position that is a run.

    :param name: as `/next_batch` names it.
    """

    name: str


@router.post("/run/start", dependencies=[Depends(same_origin)])
def start_run(user: GetUserDep, asked: RunAsked) -> dict[str, str]:
    """Start the run of a remedy."""
    kept, position = as_seen(user, asked)
    found = remedies.find(kept, position, fetching_task(position.owner))
    for one in found.offered:
        if one.path != "run/start" or one.name != asked.name:
            continue
        if not may_trigger(user, one.dag):
            raise HTTPException(403, f"You may not start runs of DAG {one.dag}.")
        said = remedies.start(one, user.get_name())
        actions.log(f"sfevents.{asked.name.split()[0]}", user.get_name(), position)
        return {"said": said}
    raise HTTPException(404, "There is no such remedy any more. Look at the position again.")


def _may(user: Any, remedy: remedies.Remedy, may_change: bool) -> bool:
    if remedy.path == "run/start":
        return may_trigger(user, remedy.dag)
    if remedy.name == "release" and remedy.dag:
        return may_edit(user, remedy.dag)
    return may_change
