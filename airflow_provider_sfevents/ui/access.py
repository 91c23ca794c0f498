"""Rights of the page's users, and the positions that a user may see.

1. A position that the user may not see is answered like one that does not exist.
2. A write is taken from Airflow's own origin alone, on the position as the user saw it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
    VariableDetails,
)
from airflow.configuration import conf
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from airflow_provider_sfevents.commands.position_rows import found
from airflow_provider_sfevents.commands.tasks.task_states import TaskState, known_dags, task_states
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    PositionConflictError,
    TransportError,
)
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.ui import actions
from airflow_provider_sfevents.ui.position_views import Kept, read

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod

    from airflow_provider_sfevents.positions.record import Position

NOT_THERE = "There is no such position, or you may not read its DAG."


def same_origin(request: Request) -> None:
    """Refuse a write that another site's page has sent with the user's cookie.

    A browser sends `Origin` with each write. `[api] base_url` is Airflow's own, also behind a
    proxy; without it the request's host counts.
    """
    own = urlsplit(conf.get("api", "base_url", fallback="") or str(request.base_url))
    given = urlsplit(request.headers.get("origin", ""))
    host = request.headers.get("host", "")
    if given.netloc not in {own.netloc, host} or not given.netloc:
        raise HTTPException(403, "Changes are taken from Airflow's own pages only.")


class Which(BaseModel):
    """A position as the user saw it."""

    org_id: str
    consumer: str
    topic: str
    store: str
    expected_epoch: str
    expected_batch_number: int


def shown(user: Any, org_id: str, consumer: str, topic: str, store: str) -> tuple[Kept, Position]:
    """Return a position that the user may see.

    :param org_id: empty: the first position of the consumer on the topic.
    :param store: as `Kept.store`; empty: the first store that has the position.
    """
    for one in visible(user, consumer, topic):
        position = one.position
        if position is None:
            continue
        of = (org_id or position.org_id, consumer, topic, store or one.store)
        if (position.org_id, position.consumer, position.topic, one.store) == of:
            return one, position
    raise HTTPException(404, NOT_THERE)


def as_seen(user: Any, asked: Which, *, may_run: bool = False) -> tuple[Kept, Position]:
    """Return a position that the user may see, if it is as the user saw it.

    :param may_run: accept that a task of it runs.
    """
    one, position = shown(user, asked.org_id, asked.consumer, asked.topic, asked.store)
    [state] = [TaskState()] if may_run else task_states([position], datetime.now(UTC))
    actions.check_unmoved(position, state, asked.expected_epoch, asked.expected_batch_number)
    return one, position


def answer_error(_: Request, error: Exception) -> JSONResponse:
    """Answer with an error's sentence: 409 if the position has moved, 503 or 400 otherwise."""
    status = 409 if isinstance(error, PositionConflictError) else 400
    status = 503 if isinstance(error, TransportError) else status
    return JSONResponse({"detail": str(error)}, status_code=status)


def may_read_assets(user: Any) -> bool:
    return bool(get_auth_manager().is_authorized_asset(method="GET", user=user))


def may_ask(user: Any, conn_id: str) -> bool:
    details = ConnectionDetails(conn_id=conn_id)
    return bool(
        get_auth_manager().is_authorized_connection(method="GET", user=user, details=details)
    )


def may_move(user: Any, kept: Kept) -> bool:
    manager = get_auth_manager()
    if kept.store == "asset":
        return bool(manager.is_authorized_asset(method="PUT", user=user))
    position = kept.position
    if position is None:
        return False
    key = VariableDetails(key=variable_key(position.consumer, position.topic))
    return bool(manager.is_authorized_variable(method="PUT", user=user, details=key))


def require_move(user: Any, kept: Kept) -> None:
    """Refuse a user who may not change the store of a position."""
    if not may_move(user, kept):
        raise HTTPException(403, f"You may not change {kept.where}.")


def may_clear(user: Any, dag: str) -> bool:
    return _may_change(user, "PUT", dag, DagAccessEntity.TASK_INSTANCE)


def may_edit(user: Any, dag: str) -> bool:
    return _may_change(user, "PUT", dag)


def may_trigger(user: Any, dag: str) -> bool:
    return _may_change(user, "POST", dag, DagAccessEntity.RUN)


def _may_change(
    user: Any, method: ResourceMethod, dag: str, entity: DagAccessEntity | None = None
) -> bool:
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method, user=user, access_entity=entity, details=DagDetails(id=dag)
        )
    )


def visible(user: Any, consumer: str = "", topic: str = "") -> list[Kept]:
    """Return the records that the user may see, those that are no position, too.

    :param consumer: with `topic`: only those that may hold this position, which is quicker.
    """
    try:
        kept = [read(where, text) for where, text in found(consumer, topic)]
    except ConfigurationError as error:
        raise HTTPException(404, NOT_THERE) from error
    except TransportError as error:
        raise HTTPException(503, "Airflow's database does not answer.") from error
    manager = get_auth_manager()
    dags = manager.get_authorized_dag_ids(user=user, method="GET")
    variables = manager.is_authorized_variable(method="GET", user=user)
    known = known_dags({one.dag for one in kept})
    return [
        replace(one, dag_state=known.get(one.dag))
        for one in kept
        if (one.dag in dags if one.dag in known else variables)
    ]
