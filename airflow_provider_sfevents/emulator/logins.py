"""The HTTP face of Salesforce: token and userinfo, on the host for all orgs and on each org's My Domain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from airflow_provider_sfevents.emulator.errors import Refusal
from airflow_provider_sfevents.emulator.oauth import OAuthRefused, TokenEndpoint, user_info
from airflow_provider_sfevents.emulator.records import Call

if TYPE_CHECKING:
    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.state import State

_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_HTTP_STATUS = {
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
}


class Logins:
    """Routes of one host."""

    def __init__(self, state: State, endpoint: TokenEndpoint) -> None:
        self._state = state
        self._endpoint = endpoint

    def routes(self) -> list[Route]:
        return [
            Route("/services/oauth2/token", self._token, methods=["POST"]),
            Route("/services/oauth2/userinfo", self._user_info, methods=["GET", "POST"]),
            Route("/id/{org_id}/{user_id}", self._user_info, methods=["GET"]),
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
        except OAuthRefused as refused:
            body = {"error": refused.error, "error_description": refused.description}
            return JSONResponse(body, status_code=400, headers=_NO_STORE)
        except Refusal as refusal:
            return _failed(refusal)

    async def _user_info(self, request: Request) -> Response:
        self._record("userinfo", request, "")
        try:
            await self._check("userinfo")
        except Refusal as refusal:
            return _failed(refusal)
        session = self._state.sessions.find(bearer(request))
        if session is None:
            return PlainTextResponse("Bad_OAuth_Token", status_code=403)
        return JSONResponse(user_info(session), headers=_NO_STORE)

    async def _check(self, endpoint: str) -> None:
        """Let a request through, unless it is to fail.

        :raises Refusal: when it is, after the time asked for.
        """
        if fault := self._state.faults.take(endpoint):
            await asyncio.sleep(fault.after_seconds or 0)
            raise fault.refusal

    def _record(self, rpc: str, request: Request, subject: str) -> None:
        names: Any = request.headers.keys()
        self._state.records.call(
            Call(
                rpc=rpc,
                at=self._state.clock.now(),
                metadata=tuple(sorted(set(names))),
                subject=subject,
            )
        )


def bearer(request: Request) -> str:
    """Token, from its header or, as documented too, from a parameter."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in {"bearer", "oauth"}:
        return str(token.strip())
    return str(request.query_params.get("oauth_token", ""))


def _failed(refusal: Refusal) -> Response:
    return PlainTextResponse(refusal.message, status_code=_HTTP_STATUS.get(refusal.status, 500))
