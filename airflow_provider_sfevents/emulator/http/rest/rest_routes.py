"""All routes of the REST API for one org."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for, milliseconds
from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.http.rest.bulk_queries import BulkQueryResource
from airflow_provider_sfevents.emulator.http.rest.limits_resource import UsedAllowances
from airflow_provider_sfevents.emulator.http.rest.org_resources import OrgResource
from airflow_provider_sfevents.emulator.http.rest.record_requests import RecordResource
from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestGate
from airflow_provider_sfevents.emulator.http.rest.setup_edits import SetupEdits
from airflow_provider_sfevents.emulator.http.rest.soql_queries import QueryResource
from airflow_provider_sfevents.emulator.http.rest.streaming_channels import (
    StreamingChannelResource,
)
from airflow_provider_sfevents.emulator.http.rest.tooling_api import ToolingResource
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found
from airflow_provider_sfevents.emulator.state.publish_allocation import OVER

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestRequest
    from airflow_provider_sfevents.emulator.org.org import Org
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState

_DATA = "/services/data"
_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]


def rest_routes(state: EmulatorState, org: Org) -> list[Route]:
    """Routes of the REST API; literal paths come before paths with parameters.

    No path ends in a slash; see `without_slash`.
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
            raise RecordRefusedError("INVALID_FIELD", str(error)) from error
        if not state.publishing.take(org.org_id, 1):
            raise RecordRefusedError("LIMIT_EXCEEDED", OVER.partition(": ")[2])
        event_id = str(uuid.uuid4())
        org.bus.append(topic.name, [EncodedEvent(event_id, topic.schema_id, payload)])
        return event_id

    def used() -> UsedAllowances:
        return UsedAllowances(
            delivered=state.call_log.delivered_in_a_day(org.org_id, state.clock.timestamp()),
            published=state.publishing.used(org.org_id),
            cometd_clients=state.cometd.count(org.org_id),
        )

    def nothing_there(_: RestRequest) -> Any:
        raise not_found()

    gate = RestGate(state, org.org_id)
    database = org.database
    return [
        *OrgResource(org.bus, used).routes(gate),
        *ToolingResource(SetupEdits(database, org.managed)).routes(gate),
        *QueryResource(database).routes(gate),
        *BulkQueryResource(database).routes(gate),
        *StreamingChannelResource(database, state.cometd, org.org_id).routes(gate),
        *RecordResource(database, publish).routes(gate),
        Route(f"{_DATA}/{{rest:path}}", gate.serving(nothing_there), methods=_METHODS),
    ]


def without_slash(app: Any) -> Any:
    """Application that also accepts REST paths with a trailing slash, as some clients send."""

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path.startswith(f"{_DATA}/"):
            scope = {**scope, "path": path.rstrip("/")}
        await app(scope, receive, send)

    return answering
