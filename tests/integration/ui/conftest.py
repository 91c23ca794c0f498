"""The page's API, mounted as Airflow mounts it, on this process's database."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import delete

from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging.manifest import LossWindow, Receipt, Run
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The API, and a consumer whose position only this test has."""

    app: FastAPI
    consumer: str
    dag: str

    def get(self, path: str, role: str | None, **query: str) -> httpx.Response:
        """Answer to a user of this role.

        :param role: of Airflow's simple auth manager; None: without a token.
        """
        headers = {} if role is None else {"Authorization": f"Bearer {_token(role)}"}

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
                return await client.get(f"/sfevents{path}", params=query, headers=headers)

        return asyncio.run(ask())

    def post(
        self, path: str, role: str | None, body: dict[str, Any], origin: str = "http://airflow"
    ) -> httpx.Response:
        """Answer to a write by a user of this role, from a page of this origin."""
        headers = {} if role is None else {"Authorization": f"Bearer {_token(role)}"}
        if origin:
            headers["Origin"] = origin

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
                return await client.post(f"/sfevents{path}", json=body, headers=headers)

        return asyncio.run(ask())

    def seen(self, **more: Any) -> dict[str, Any]:
        """Body of an action on the position as it is now."""
        position = self.position()
        return {
            "org_id": ORG,
            "consumer": self.consumer,
            "topic": TOPIC,
            "store": "variable",
            "expected_epoch": position.epoch,
            "expected_batch_number": position.batch_number,
            **more,
        }

    def position(self) -> Position:
        from airflow.models.variable import Variable

        return Position.from_json(Variable.get(variable_key(self.consumer, TOPIC)), "here")

    def rows(self, role: str) -> list[dict[str, Any]]:
        """Rows of this test in the overview of such a user."""
        shown = self.get("/api/positions", role)
        assert shown.status_code == 200
        return [row for row in shown.json()["positions"] if row["consumer"] == self.consumer]

    def keep(
        self,
        *,
        dag: str,
        committed: datetime,
        org: str = ORG,
        quarantined: int = 0,
        losses: tuple[LossWindow, ...] = (),
    ) -> None:
        """Write a position that a task of the DAG has committed."""
        by = Run(dag=dag, run="run-1", task="load", try_number=1) if dag else Run()
        first = begun(consumer=self.consumer, owner=f"{dag}.load", org_id=org)
        manifest = batch_after(first, last_event_at=committed.isoformat(), losses=losses)
        receipt = Receipt(
            batch_id=manifest.batch_id,
            events=manifest.events,
            tables={"/lake/Order__e": manifest.events - quarantined},
            quarantined=quarantined,
            written_at=committed.isoformat(),
            drift=[{"event_type": "Order__e", "what": "added", "column": "New__c", "type": "int"}],
        )
        self._write(advance(first, manifest, committed.isoformat(), by, receipt=receipt))

    def keep_begun(self, at: str) -> None:
        """Write a position that a watcher has begun."""
        self._write(begun(consumer=self.consumer, committed_at=at, committed_by=Run()))

    def next_run(self) -> None:
        """Let a run of the same task commit the next batch."""
        position, now = self.position(), datetime.now(UTC).isoformat()
        by = Run(dag=self.dag, run="run-2", task="load", try_number=1)
        self._write(advance(position, batch_after(position, last_event_at=now), now, by))

    def _write(self, position: Position) -> None:
        from airflow.models.variable import Variable

        Variable.set(variable_key(self.consumer, TOPIC), position.to_json())


def _token(role: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    user = SimpleAuthManagerUser(username="someone", role=role or None)
    return str(get_auth_manager().generate_jwt(user))


@pytest.fixture
def page(airflow_db: None) -> Iterator[Page]:
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from fastapi import FastAPI

    from airflow_provider_sfevents.ui.plugin import SfEventsPlugin

    app = FastAPI()
    init_auth_manager(app)
    [api] = SfEventsPlugin.fastapi_apps
    app.mount(api["url_prefix"], api["app"])
    name = f"page_{secrets.token_hex(4)}"
    with create_session() as session:
        session.merge(DagBundleModel(name="page"))
        session.flush()
        session.add(DagModel(dag_id=name, bundle_name="page", fileloc="page.py"))
    yield Page(app=app, consumer=name, dag=name)
    # Also those of other topics: a later test counts the positions that a user sees.
    with create_session() as session:
        session.execute(delete(Variable).where(Variable.key.startswith(variable_key(name, ""))))
