"""API of the page: reads positions from Airflow's database; its actions; and a check of an org.

1. Every route of `router` needs a login; only the static files of the page are public.
2. A user sees a position if the user may read the DAG that last committed it. A position that no
   DAG has committed, or whose DAG is gone, and a record that is no position need the right to read
   Variables.
3. A position that the user may not see is answered like one that does not exist.
4. A GET changes nothing. A POST needs JSON from Airflow's own origin, the right to change the store
   or to clear the task, and the position as the user saw it.
5. An org is asked only by a POST, which changes nothing and needs the right to read the connection.
   The database alone answers everything else, except for the staged batch of one position
   (`remedies_api`) and its history (`history_api`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from airflow_provider_sfevents.batches.position.position_metrics import (
    Metric,
    exposition,
    of_position,
)
from airflow_provider_sfevents.commands.tasks.stored_tasks import fetching_task
from airflow_provider_sfevents.commands.tasks.task_states import (
    known_connections,
    task_states,
    waits,
    watchers,
)
from airflow_provider_sfevents.doctor import findings
from airflow_provider_sfevents.doctor.airflow_findings import followed_topics
from airflow_provider_sfevents.doctor.org_findings import OF_WORKER
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.ui import actions, history_api, remedies_api, staged
from airflow_provider_sfevents.ui.access import (
    Which,
    answer_error,
    as_seen,
    may_ask,
    may_clear,
    may_move,
    may_read_assets,
    require_move,
    same_origin,
    shown,
    visible,
)
from airflow_provider_sfevents.ui.position_views import allowances, details, overview_row

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position

STATIC = Path(__file__).with_name("static")

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(prefix="/api", dependencies=[Depends(get_user)])


@router.get("/positions")
def list_positions(user: GetUserDep) -> JSONResponse:
    """List the positions that the user may see, and records that are no position."""
    kept, now = visible(user), datetime.now(UTC)
    positions = [one for one in kept if one.position is not None]
    states = task_states([one.position for one in positions if one.position], now)
    rows = [overview_row(one, now, state) for one, state in zip(positions, states, strict=True)]
    problems = [{"kept_in": one.where, "problem": one.problem} for one in kept if one.problem]
    # A response of its own: FastAPI takes a tenth of a second to look for types in 500 rows.
    return JSONResponse(
        {
            "at": now.isoformat(),
            "positions": rows,
            "problems": problems,
            "waits": waits(now),
            "watchers": watchers(now) if may_read_assets(user) else [],
            "allowances": allowances([one.position for one in kept if one.position], now),
            "connections": _connections(user),
        }
    )


@router.get("/metrics", response_class=PlainTextResponse)
def show_metrics(user: GetUserDep) -> PlainTextResponse:
    """Show the metrics of the positions that the user may see, in Prometheus' text format."""
    now = datetime.now(UTC)
    positions = [one.position for one in visible(user) if one.position is not None]
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
def show_position(
    user: GetUserDep, consumer: str, topic: str, org_id: str = "", store: str = ""
) -> dict[str, Any]:
    """Show a position with its last batches and its loss windows.

    :param org_id: empty: the first position of the consumer on the topic; as is `store`.
    """
    now = datetime.now(UTC)
    one, position = shown(user, org_id, consumer, topic, store)
    [state] = task_states([position], now)
    return {
        "at": now.isoformat(),
        **details(one, now, state),
        "moves": actions.moves(position) if may_move(user, one) else [],
        "landings": _landings(user, position),
        "moved": actions.moved(position),
    }


class OrgAsked(BaseModel):
    """A connection to an org."""

    conn_id: str


@router.post("/org/check", dependencies=[Depends(same_origin)])
def check_org(user: GetUserDep, asked: OrgAsked) -> dict[str, Any]:
    """Run the doctor's checks of an org, with the topics of positions that the user may see."""
    if not may_ask(user, asked.conn_id):
        raise HTTPException(403, f"You may not read the connection {asked.conn_id}.")
    positions = [one.position for one in visible(user) if one.position is not None]
    followed = followed_topics(positions, datetime.now(UTC))
    lines = findings.at(findings.this_process(), SfEventsHook(asked.conn_id).check_org(followed))
    return {"findings": [one.to_row() for one in lines], "not_checked": OF_WORKER}


class PositionMove(Which):
    """Another start of a position."""

    start: str


class LandAgain(Which):
    """A batch of a position."""

    batch_id: str


@router.post("/position/move", dependencies=[Depends(same_origin)])
def move_position(user: GetUserDep, asked: PositionMove) -> dict[str, str]:
    """Move a position."""
    kept, position = as_seen(user, asked)
    require_move(user, kept)
    staged.keep_history(kept, position, fetching_task(position.owner))
    return {"said": actions.move(kept, position, asked.start, user.get_name())}


@router.post("/batch/land_again", dependencies=[Depends(same_origin)])
def land_batch_again(user: GetUserDep, asked: LandAgain) -> dict[str, str]:
    """Land a batch again."""
    _, position = as_seen(user, asked)
    commit = actions.commit_of(position, asked.batch_id)
    if not may_clear(user, commit.dag):
        raise HTTPException(403, f"You may not clear tasks of DAG {commit.dag}.")
    return {"said": actions.land_again(position, commit, user.get_name())}


def _connections(user: Any) -> list[str]:
    """List connections by which the user may ask an org, the default first.

    Those of a secrets backend are not listed, and can be typed.
    """
    default = SfEventsHook.default_conn_name
    known = [default, *sorted(known_connections(SfEventsHook.conn_type) - {default})]
    return [one for one in known if may_ask(user, one)]


def _landings(user: Any, position: Position) -> dict[str, str]:
    """Describe, by batch id, the landings of recent batches that the user may repeat."""
    allowed = {one.dag: may_clear(user, one.dag) for one in position.recent if one.dag}
    return {
        one.batch_id: actions.landing_again(one)
        for one in position.recent
        if allowed.get(one.dag, False)
    }


def make_app() -> FastAPI:
    """Build the application that Airflow mounts."""
    app = FastAPI(title="Salesforce events", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.include_router(remedies_api.router)
    app.include_router(history_api.router)
    app.add_exception_handler(SfEventsError, answer_error)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app
