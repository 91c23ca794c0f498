"""Route of older batches: the history (`positions.history`) that is kept beside staged batches."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import APIRouter, Depends, HTTPException, Query

from airflow_provider_sfevents.commands.tasks.stored_tasks import fetching_task
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.record_text import is_epoch
from airflow_provider_sfevents.ui import staged
from airflow_provider_sfevents.ui.access import shown
from airflow_provider_sfevents.ui.position_views import older_rows

router = APIRouter(prefix="/api", dependencies=[Depends(get_user)])


@router.get("/batches")
def list_older_batches(
    user: GetUserDep,
    consumer: str,
    topic: str,
    epoch: str = "",
    before: Annotated[int, Query(ge=0, le=10**10)] = 0,
    org_id: str = "",
    store: str = "",
) -> dict[str, Any]:
    """List up to 100 batches before a batch number, newest first, and where older ones are.

    :param epoch: empty: begin before those that `/position` has.
    """
    if epoch and not is_epoch(epoch):
        raise HTTPException(400, "There is no such epoch.")
    kept, position = shown(user, org_id, consumer, topic, store)
    cursor = (
        history.Cursor(epoch=epoch, before=before) if epoch else history.before_recent(position)
    )
    if cursor is None:
        return older_rows(history.OlderBatches(entries=(), next=None))
    try:
        seen = staged.reach(kept, position, fetching_task(position.owner), moved=True)
    except staged.UnseenError as error:
        return older_rows(history.OlderBatches(entries=(), next=cursor), unseen=str(error))
    return older_rows(history.older(seen.reached.folder, cursor, position))
