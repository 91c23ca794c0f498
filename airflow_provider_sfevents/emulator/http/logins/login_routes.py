"""Login routes: token, SOAP login, userinfo and identity URL.

They are served on the login host of all orgs and on each org's My Domain.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.http.logins import soap_messages
from airflow_provider_sfevents.emulator.http.logins.oauth_tokens import (
    OAuthRefusedError,
    TokenEndpoint,
)
from airflow_provider_sfevents.emulator.http.logins.userinfo import identity, user_info
from airflow_provider_sfevents.emulator.state.call_log import RecordedCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

    About = Callable[[OrgSession], dict[str, Any]]

_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_HTTP_STATUS = {
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
}


class LoginRoutes:
    """Login routes of one host."""

    def __init__(self, state: EmulatorState, endpoint: TokenEndpoint) -> None:
        self._state = state
        self._endpoint = endpoint

    def routes(self) -> list[Route]:
        return [
            Route("/services/oauth2/token", self._token, methods=["POST"]),
            Route("/services/oauth2/userinfo", self._user_info, methods=["GET", "POST"]),
            Route("/id/{org_id}/{user_id}", self._identity, methods=["GET", "POST"]),
            Route("/services/Soap/u/{version}", self._soap, methods=["POST"]),
            Route("/services/Soap/u/{version}/", self._soap, methods=["POST"]),
        ]

    async def _token(self, request: Request) -> Response:
        form = dict(
            parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        )
        self._record("token", request, form.get("grant_type", ""))
        try:
            await self._check("token")
            return JSONResponse(
                self._endpoint.answer(form, request.headers.get("authorization", "")),
                headers=_NO_STORE,
            )
        except OAuthRefusedError as refused:
            body = {"error": refused.error, "error_description": refused.description}
            return JSONResponse(body, status_code=400, headers=_NO_STORE)
        except RefusalError as refusal:
            return _failed(refusal)

    async def _soap(self, request: Request) -> Response:
        version = request.path_params["version"]
        self._record("soap", request, version)
        try:
            await self._check("soap")
        except RefusalError as refusal:
            if refusal.status != "UNAUTHENTICATED":
                return _failed(refusal)
            return _fault(
                soap_messages.SoapLoginRefusedError("INVALID_LOGIN", soap_messages.INVALID_LOGIN)
            )
        try:
            return _xml(self._soap_login(version, await request.body()), 200)
        except soap_messages.SoapLoginRefusedError as refused:
            return _fault(refused)

    def _soap_login(self, version: str, body: bytes) -> str:
        knobs = self._state.knobs
        soap_messages.check_version(version, knobs)
        asked = soap_messages.read_login(body)
        session = self._endpoint.soap_session(asked.username, asked.password)
        if session is None:
            raise soap_messages.SoapLoginRefusedError("INVALID_LOGIN", soap_messages.INVALID_LOGIN)
        return soap_messages.answer(session, version, knobs)

    async def _user_info(self, request: Request) -> Response:
        return await self._about(request, user_info)

    async def _identity(self, request: Request) -> Response:
        return await self._about(request, identity)

    async def _about(self, request: Request, say: About) -> Response:
        """Answer about the user of a token; an identity URL must be that user's."""
        self._record("userinfo", request, "")
        try:
            await self._check("userinfo")
        except RefusalError as refusal:
            return _failed(refusal)
        session = self._state.sessions.find(bearer(request) or await _token_in_form(request))
        if session is None or not _is_own(session, request.path_params):
            return PlainTextResponse("Bad_OAuth_Token", status_code=403)
        return JSONResponse(say(session), headers=_NO_STORE)

    async def _check(self, endpoint: str) -> None:
        """Raise an ordered fault, if any.

        :raises RefusalError: a fault was ordered; raised after its delay.
        """
        if fault := self._state.faults.take(endpoint):
            await asyncio.sleep(fault.after_seconds or 0)
            raise fault.refusal

    def _record(self, rpc: str, request: Request, subject: str) -> None:
        names: Any = request.headers.keys()
        self._state.call_log.call(
            RecordedCall(
                rpc=rpc,
                at=self._state.clock.now(),
                metadata=tuple(sorted(set(names))),
                subject=subject,
            )
        )


def bearer(request: Request) -> str:
    """Token of a request: from its header or, as also documented, from a parameter."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in {"bearer", "oauth"}:
        return str(token.strip())
    return str(request.query_params.get("oauth_token", ""))


async def _token_in_form(request: Request) -> str:
    body = (await request.body()).decode("utf-8", "replace") if request.method == "POST" else ""
    return str(dict(parse_qsl(body)).get("oauth_token", ""))


def _is_own(session: OrgSession, path: dict[str, str]) -> bool:
    """True if a path names this session's org and user, in 15 or 18 characters, or neither."""
    own = {"org_id": session.org_id, "user_id": session.user_id}
    return all(path[name] in {own[name], own[name][:15]} for name in path)


def _xml(text: str, status: int) -> Response:
    return Response(text, status_code=status, media_type="text/xml", headers=_NO_STORE)


def _fault(refused: soap_messages.SoapLoginRefusedError) -> Response:
    return _xml(soap_messages.fault(refused), 500)


def _failed(refusal: RefusalError) -> Response:
    return PlainTextResponse(refusal.message, status_code=_HTTP_STATUS.get(refusal.status, 500))
