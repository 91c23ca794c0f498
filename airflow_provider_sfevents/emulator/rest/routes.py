"""All routes of the REST API for one org."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.rest.about import About
from airflow_provider_sfevents.emulator.rest.bulk import BulkQueries
from airflow_provider_sfevents.emulator.rest.face import Face
from airflow_provider_sfevents.emulator.rest.queries import Queries
from airflow_provider_sfevents.emulator.rest.records import Records
from airflow_provider_sfevents.emulator.sobjects.refusals import RecordRefused, not_found

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org import Org
    from airflow_provider_sfevents.emulator.rest.face import Asked
    from airflow_provider_sfevents.emulator.state import State

_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]


def rest_routes(state: State, org: Org) -> list[Route]:
    """Make them; those with more words in their path come before those with places for any word."""

    def publish(name: str, fields: dict[str, Any], user_id: str) -> str | None:
        if not any(topic.record == name and topic.can_publish for topic in org.bus.topics):
            return None
        event_id = str(uuid.uuid4())
        try:
            org.publish(name, [{**fields, "CreatedById": user_id}], ids=[event_id])
        except EmulatorError as error:
            raise RecordRefused("INVALID_FIELD", str(error)) from error
        return event_id

    def delivered() -> int:
        return state.records.delivered_in_a_day(org.org_id, state.clock.timestamp())

    def nothing_there(_: Asked) -> Any:
        raise not_found()

    face = Face(state, org.org_id)
    database = org.database
    return [
        *About(org.bus, delivered).routes(face),
        *Queries(database).routes(face),
        *BulkQueries(database).routes(face),
        *Records(database, publish).routes(face),
        Route("/services/data/{rest:path}", face.serving(nothing_there), methods=_METHODS),
    ]
