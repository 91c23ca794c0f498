"""All routes of the REST API for one org."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator.allocations import OVER
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.payloads import codec_for, milliseconds
from airflow_provider_sfevents.emulator.rest.about import About
from airflow_provider_sfevents.emulator.rest.bulk import BulkQueries
from airflow_provider_sfevents.emulator.rest.face import Face
from airflow_provider_sfevents.emulator.rest.limits import Used
from airflow_provider_sfevents.emulator.rest.queries import Queries
from airflow_provider_sfevents.emulator.rest.records import Records
from airflow_provider_sfevents.emulator.rest.setup_edits import SetupEdits
from airflow_provider_sfevents.emulator.rest.tooling import Tooling
from airflow_provider_sfevents.emulator.sobjects.refusals import RecordRefused, not_found
from airflow_provider_sfevents.emulator.topics import Encoded

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org import Org
    from airflow_provider_sfevents.emulator.rest.face import Asked
    from airflow_provider_sfevents.emulator.state import State

_DATA = "/services/data"
_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]


def rest_routes(state: State, org: Org) -> list[Route]:
    """Make them; those with more words in their path come before those with places for any word.

    None ends in a slash; see `without_slash`.
    """

    def publish(name: str, fields: dict[str, Any], user_id: str) -> str | None:
        topic = org.bus.topic(f"/event/{name}")
        if topic is None or not topic.can_publish:
            return None
        codec = codec_for(org.bus.schema(topic.schema_id) or "")
        stamps = {"CreatedDate": milliseconds(state.clock.now()), "CreatedById": user_id}
        try:
            payload = codec.encode({**fields, **stamps})
        except EmulatorError as error:
            raise RecordRefused("INVALID_FIELD", str(error)) from error
        if not state.publishing.take(org.org_id, 1):
            raise RecordRefused("LIMIT_EXCEEDED", OVER.partition(": ")[2])
        event_id = str(uuid.uuid4())
        org.bus.append(topic.name, [Encoded(event_id, topic.schema_id, payload)])
        return event_id

    def used() -> Used:
        return Used(
            delivered=state.records.delivered_in_a_day(org.org_id, state.clock.timestamp()),
            published=state.publishing.used(org.org_id),
            cometd_clients=state.cometd.count(org.org_id),
        )

    def nothing_there(_: Asked) -> Any:
        raise not_found()

    face = Face(state, org.org_id)
    database = org.database
    return [
        *About(org.bus, used).routes(face),
        *Tooling(SetupEdits(database, org.managed)).routes(face),
        *Queries(database).routes(face),
        *BulkQueries(database).routes(face),
        *Records(database, publish).routes(face),
        Route(f"{_DATA}/{{rest:path}}", face.serving(nothing_there), methods=_METHODS),
    ]


def without_slash(app: Any) -> Any:
    """Serve each resource of the REST API with a slash at its end, too, as clients write it."""

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path.startswith(f"{_DATA}/"):
            scope = {**scope, "path": path.rstrip("/")}
        await app(scope, receive, send)

    return answering
