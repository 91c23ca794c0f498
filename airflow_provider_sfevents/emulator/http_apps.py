"""HTTP applications: the login host of all orgs, and each org's My Domain."""

from __future__ import annotations

from email.utils import format_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response

from airflow_provider_sfevents.emulator.cometd.streaming_app import StreamingApp
from airflow_provider_sfevents.emulator.http.admin.admin_guard import guarded
from airflow_provider_sfevents.emulator.http.admin.event_admin import EventAdmin
from airflow_provider_sfevents.emulator.http.admin.fault_admin import FaultAdmin
from airflow_provider_sfevents.emulator.http.admin.managed_admin import ManagedAdmin
from airflow_provider_sfevents.emulator.http.admin.record_admin import RecordAdmin
from airflow_provider_sfevents.emulator.http.logins.login_routes import LoginRoutes
from airflow_provider_sfevents.emulator.http.request_bodies import bounded
from airflow_provider_sfevents.emulator.http.rest.request_length import within_length
from airflow_provider_sfevents.emulator.http.rest.rest_routes import rest_routes, without_slash
from airflow_provider_sfevents.emulator.org.dynamic_channels import open_channel

if TYPE_CHECKING:
    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.fault_verbs import FaultVerbs
    from airflow_provider_sfevents.emulator.http.admin.event_admin import Connect
    from airflow_provider_sfevents.emulator.http.logins.oauth_tokens import TokenEndpoint
    from airflow_provider_sfevents.emulator.org.org import Org
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState


def login_app(state: EmulatorState, endpoint: TokenEndpoint) -> Any:
    return _app(state, LoginRoutes(state, endpoint).routes())


def my_domain_app(
    state: EmulatorState,
    endpoint: TokenEndpoint,
    org: Org,
    *,
    connect: Connect,
    faults: FaultVerbs,
    token: str,
    names: frozenset[str],
) -> Any:
    """Application of a My Domain: logins, REST API, Streaming API and admin API.

    :param token: token of the admin API; see `admin_guard`.
    :param names: host names that requests may use.
    """
    admin = [
        *EventAdmin(org, connect).routes(),
        *RecordAdmin(org).routes(),
        *ManagedAdmin(org).routes(),
        *FaultAdmin(org, faults).routes(),
    ]
    opener = partial(open_channel, org.database)
    apis = [*rest_routes(state, org), *StreamingApp(state, org.org_id, opener).routes()]
    routes = [*LoginRoutes(state, endpoint).routes(), *apis, *admin]
    return guarded(_app(state, routes), token, names)


def _app(state: EmulatorState, routes: list[Any]) -> Any:
    def defect(_: Request, error: Exception) -> Response:
        state.defect(error)
        return PlainTextResponse(f"an error in the emulator: {error!r}", status_code=500)

    def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=400)

    handlers: dict[Any, Any] = {Exception: defect, ClientDisconnect: gone}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return _dated(within_length(bounded(without_slash(app))), state.clock)


def _dated(app: Any, clock: EmulatorClock) -> Any:
    """Add the `Date` header by the org's clock.

    Commit times follow that clock too, and a client compares the two.
    """

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                at = format_datetime(clock.now(), usegmt=True).encode()
                message = {**message, "headers": [*message.get("headers", ()), (b"date", at)]}
            await send(message)

        await app(scope, receive, sent)

    return answering
