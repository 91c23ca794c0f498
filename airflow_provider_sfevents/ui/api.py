"""API of the page: reads positions from Airflow's database, and nothing else.

1. Every route of `router` needs a login; only the static files of the page are public.
2. A user sees a position if the user may read the DAG that last committed it. A position that no
   DAG has committed, or whose DAG is gone, and a record that is no position need the right to read
   Variables.
3. A position that the user may not see is answered like one that does not exist.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

from airflow_provider_sfevents.batches.position.position_metrics import (
    Metric,
    exposition,
    of_position,
)
from airflow_provider_sfevents.commands.position_rows import found
from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.ui.position_views import Kept, details, overview_row, read
from airflow_provider_sfevents.ui.task_states import known_dags, task_states, waits

STATIC = Path(__file__).with_name("static")

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(prefix="/api", dependencies=[Depends(get_user)])


@router.get("/positions")
def list_positions(user: GetUserDep) -> JSONResponse:
    """List the positions that the user may see, and records that are no position."""
    kept, now = _visible(user), datetime.now(UTC)
    positions = [one for one in kept if one.position is not None]
    states = task_states([one.position for one in positions if one.position], now)
    rows = [overview_row(one, now, state) for one, state in zip(positions, states, strict=True)]
    problems = [{"kept_in": one.where, "problem": one.problem} for one in kept if one.problem]
    # A response of its own: FastAPI takes a tenth of a second to look for types in 500 rows.
    return JSONResponse({"at": now.isoformat(), "positions": rows, "problems": problems})


@router.get("/metrics", response_class=PlainTextResponse)
def show_metrics(user: GetUserDep) -> PlainTextResponse:
    """Show the metrics of the positions that the user may see, in Prometheus' text format."""
    now = datetime.now(UTC)
    positions = [one.position for one in _visible(user) if one.position is not None]
    states = task_states(positions, now)
    metrics = [
        metric
        for position, state in zip(positions, states, strict=True)
        for metric in of_position(position, state.failed)
    ]
    metrics += [
        Metric(name="waits", value=count, labels={"state": state})
        for state, count in waits(now).items()
    ]
    return PlainTextResponse(exposition(metrics), media_type=_PROMETHEUS)


@router.get("/position")
def show_position(user: GetUserDep, org_id: str, consumer: str, topic: str) -> dict[str, Any]:
    """Show a position with its last batches and its loss windows."""
    now = datetime.now(UTC)
    for one in _visible(user):
        position = one.position
        if position is None:
            continue
        if (position.org_id, position.consumer, position.topic) == (org_id, consumer, topic):
            [state] = task_states([position], now)
            return {"at": now.isoformat(), **details(one, now, state)}
    raise HTTPException(404, "There is no such position, or you may not read its DAG.")


def _visible(user: Any) -> list[Kept]:
    try:
        kept = [read(where, text) for where, text in found()]
    except TransportError as error:
        raise HTTPException(503, "Airflow's database does not answer.") from error
    manager = get_auth_manager()
    dags = manager.get_authorized_dag_ids(user=user, method="GET")
    variables = manager.is_authorized_variable(method="GET", user=user)
    known = known_dags({one.dag for one in kept})
    return [one for one in kept if (one.dag in dags if one.dag in known else variables)]


def make_app() -> FastAPI:
    """Build the application that Airflow mounts."""
    app = FastAPI(title="Salesforce events", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app
