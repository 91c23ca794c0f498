"""Requests of the REST API: authentication, JSON both ways, errors in Salesforce's form."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from airflow_provider_sfevents.emulator.errors import UnwritableError
from airflow_provider_sfevents.emulator.http.logins.login_routes import bearer
from airflow_provider_sfevents.emulator.http.request_bodies import json_of
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found
from airflow_provider_sfevents.emulator.state.call_log import RecordedCall

if TYPE_CHECKING:
    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.errors import RefusalError
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

_VERSION = re.compile(r"\d{2,3}\.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """An authenticated request.

    :param path: parameters of the route.
    :param headers: values by lower-case name.
    :param body: raw bytes.
    """

    version: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    session: OrgSession

    def json(self) -> Any:
        """Parse the body as JSON.

        :raises RecordRefusedError: the body has another form.
        """
        try:
            return json_of(self.body)
        except ValueError as error:
            raise RecordRefusedError(
                "JSON_PARSER_ERROR", f"the body is not JSON: {error}"
            ) from error

    def fields(self) -> dict[str, Any]:
        """Parse the body as a JSON object.

        :raises RecordRefusedError: the body has another form.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise RecordRefusedError("JSON_PARSER_ERROR", "the body is not a JSON object")
        return value

    @property
    def origin(self) -> str:
        """Origin of changes, as stated in their events; names the client only if it gave a name."""
        options = dict(
            part.strip().partition("=")[::2]
            for part in self.headers.get("sforce-call-options", "").split(",")
        )
        client = f";client={options['client']}" if options.get("client") else ""
        return f"com/salesforce/api/rest/{self.version}{client}"


Answer = Callable[[RestRequest], Any]


class RestGate:
    """Authenticates requests to one org.

    :param org_id: the org whose tokens are valid here.
    """

    def __init__(self, state: EmulatorState, org_id: str) -> None:
        self._state = state
        self._org_id = org_id

    def serving(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """Make a handler: a result becomes JSON, a response stays, None becomes 204.

        `answer` runs in a thread, so that a large query does not block the streams.
        """

        async def handle(request: Request) -> Response:
            try:
                asked = await self._let_in(request)
                return await asyncio.to_thread(_answered, answer, asked)
            except UnwritableError as error:
                refused = RecordRefusedError("SERVER_UNAVAILABLE", str(error))
            except RecordRefusedError as error:
                refused = error
            return JSONResponse([refused.to_json()], status_code=refused.status)

        return handle

    async def _let_in(self, request: Request) -> RestRequest:
        names: Any = request.headers.keys()
        self._state.call_log.call(
            RecordedCall(
                rpc="rest",
                at=self._state.clock.now(),
                metadata=tuple(sorted(set(names))),
                org_id=self._org_id,
                subject=f"{request.method} {request.url.path}",
            )
        )
        await self._fail_if_ordered()
        session = self._state.sessions.find(bearer(request))
        if session is None or session.org_id != self._org_id:
            raise RecordRefusedError("INVALID_SESSION_ID", "Session expired or invalid")
        path = dict(request.path_params)
        version = path.pop("version", "64.0")
        if not _VERSION.fullmatch(version):
            raise not_found()
        return RestRequest(
            version=version,
            path=path,
            query=dict(request.query_params),
            headers={name.lower(): value for name, value in request.headers.items()},
            body=await request.body(),
            session=session,
        )

    async def _fail_if_ordered(self) -> None:
        """Raise an ordered fault, if any.

        :raises RecordRefusedError: a fault was ordered; raised after its delay.
        """
        if fault := self._state.faults.take("rest"):
            await asyncio.sleep(fault.after_seconds or 0)
            raise _as_answer(fault.refusal)


def _answered(answer: Answer, asked: RestRequest) -> Response:
    found = answer(asked)
    if isinstance(found, Response):
        return found
    return Response(status_code=204) if found is None else JSONResponse(found)


def _as_answer(refusal: RefusalError) -> RecordRefusedError:
    codes = {
        "UNAUTHENTICATED": ("INVALID_SESSION_ID", "Session expired or invalid"),
        "PERMISSION_DENIED": (
            "INSUFFICIENT_ACCESS",
            "insufficient access rights on cross-reference id",
        ),
        "RESOURCE_EXHAUSTED": ("REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded."),
        "ABORTED": (
            "REQUEST_LIMIT_EXCEEDED",
            "ConcurrentRequests (Concurrent API Requests) Limit exceeded.",
        ),
    }
    code, message = codes.get(refusal.status, ("SERVER_UNAVAILABLE", refusal.message))
    return RecordRefusedError(code, message)
