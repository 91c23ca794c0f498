"""HTTP routes of the Streaming API: requests and cookies in, JSON out.

A message is dispatched by its channel, not by the path.
"""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from airflow_provider_sfevents.emulator.cometd import replies
from airflow_provider_sfevents.emulator.cometd.connect_delivery import written
from airflow_provider_sfevents.emulator.cometd.disturbed_answer import BrokenAnswer, disturbed
from airflow_provider_sfevents.emulator.cometd.held_connect import LongPoll
from airflow_provider_sfevents.emulator.cometd.message_parsing import (
    MAX_REQUEST_BYTES,
    hold_asked,
    messages_in,
    version_error,
)
from airflow_provider_sfevents.emulator.cometd.meta_channels import (
    BROWSER,
    SERVER,
    Caller,
    MetaChannels,
    refusal,
)
from airflow_provider_sfevents.emulator.http.logins.login_routes import bearer
from airflow_provider_sfevents.emulator.state.call_log import RecordedCall
from airflow_provider_sfevents.emulator.state.cometd_clients import POLL_SECONDS

if TYPE_CHECKING:
    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.cometd.meta_channels import OpenChannel
    from airflow_provider_sfevents.emulator.cometd.replies import Message
    from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder
    from airflow_provider_sfevents.emulator.state.cometd_clients import CometdClient
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

_ENDING = {"NOT_FOUND", "RESOURCE_EXHAUSTED"}  # faults that end a session


class StreamingApp:
    """Streaming API routes of one org's My Domain.

    :param org_id: the org whose tokens are valid here.
    :param open_channel: creates a generic channel on its first subscription, if it can.
    """

    def __init__(self, state: EmulatorState, org_id: str, open_channel: OpenChannel) -> None:
        self._state = state
        self._org_id = org_id
        self._meta = MetaChannels(state, org_id, open_channel)
        self._clients = state.cometd
        self._timer: asyncio.TimerHandle | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/cometd", self._serve, methods=["POST"]),
            Route("/cometd/{path:path}", self._serve, methods=["POST"]),
        ]

    async def _serve(self, request: Request) -> Response | BrokenAnswer:
        body = await request.body()
        if len(body) > MAX_REQUEST_BYTES:
            return _json([written({"error": replies.TOO_LARGE, "successful": False})], 413)
        try:
            messages = messages_in(body)
        except ValueError as error:
            return PlainTextResponse(str(error), status_code=400)
        self._record(request, messages)
        order = self._state.faults.take("cometd")
        fault = order if order and not order.how else None
        if fault:
            await asyncio.sleep(fault.after_seconds or 0)
        parts: list[str] = []
        opened: list[CometdClient] = []
        for message in messages:
            client = self._clients.find(message.get("clientId"), self._org_id, self._now())
            if fault:
                parts.append(self._failed(message, client, fault))
            elif message["channel"] == replies.HANDSHAKE:
                parts.append(self._handshake(request, message, opened))
            else:
                alone = len(messages) == 1
                parts += await self._from_client(request, message, client, alone=alone)
        response = self._with_cookies(request, _json(parts), opened)
        return await disturbed(response, order, SERVER) if order else response

    # --- messages ---------------------------------------------------------------------------------

    def _handshake(self, request: Request, message: Message, opened: list[CometdClient]) -> str:
        caller = self._caller(request, None)
        if refused := refusal(message, caller, None):
            return written(refused)
        client = caller.session and self._meta.handshake(caller, caller.session, self._now())
        if not client:
            return written(replies.denied(message, replies.TOO_MANY_CLIENTS))
        opened.append(client)
        self._watch()
        return written(replies.handshaken(message, client.client_id))

    async def _from_client(
        self, request: Request, message: Message, client: CometdClient | None, *, alone: bool
    ) -> list[str]:
        """Answer a message that needs a client session.

        :param alone: the only message of its request; only then is a connect held.
        """
        caller = self._caller(request, client)
        if refused := refusal(message, caller, client):
            return [written(refused)]
        if client is None or caller.session is None:
            raise AssertionError("a message without a client or session was accepted")
        client.token = caller.token
        if message["channel"] == replies.CONNECT:
            return await self._connect(request, message, client, alone=alone)
        return [written(self._meta.answer(message, client, caller.session))]

    async def _connect(
        self, request: Request, message: Message, client: CometdClient, *, alone: bool
    ) -> list[str]:
        if message.get("connectionType") != replies.LONG_POLLING:
            wrong = replies.invalid_connection_type(message.get("connectionType"))
            return [written(replies.refused(message, wrong))]
        knobs = self._state.knobs
        timeout, first = POLL_SECONDS * knobs.cometd_time_scale, not client.connected
        advice = replies.first_advice(
            round(timeout * 1000), multiple_clients=knobs.cometd_multiple_clients
        )
        poll = LongPoll(
            state=self._state,
            meta=self._meta,
            client=client,
            message=message,
            advice=advice if first else None,
            left=0 if first or not alone else hold_asked(message, timeout),
        )
        if client.held:
            client.held.supersede()
        client.held, client.until, client.connected = poll, math.inf, True
        try:
            return await poll.run(request.receive())
        finally:
            if client.held is poll:
                client.held = None
                client.until = self._now() + self._meta.reconnect_seconds
                self._watch()

    def _failed(self, message: Message, client: CometdClient | None, fault: FaultOrder) -> str:
        """Answer with the fault that a test has ordered."""
        status = fault.refusal.status
        if client and status in _ENDING:
            self._meta.end(client, "CANCELLED")
        return written(replies.ordered(status, message))

    # --- callers ----------------------------------------------------------------------------------

    def _caller(self, request: Request, client: CometdClient | None) -> Caller:
        token = _token(request)
        lowest = self._state.knobs.cometd_min_version
        return Caller(
            version_error=version_error(request.path_params.get("path", ""), lowest),
            token=token,
            session=self._session(token, client),
            browser=request.cookies.get(BROWSER, ""),
            server=request.cookies.get(SERVER, ""),
        )

    def _session(self, token: str, client: CometdClient | None) -> OrgSession | None:
        """Session of a token. The token of a connected client does not expire."""
        sessions = self._state.sessions
        kept = client is not None and client.token == token
        session = sessions.prolong(token) if kept else sessions.find(token)
        return session if session and session.org_id == self._org_id else None

    def _with_cookies(
        self, request: Request, response: Response, opened: list[CometdClient]
    ) -> Response:
        # By the machine's clock, not the org's, because the client evaluates it.
        expires = datetime.now(UTC) + timedelta(hours=self._state.knobs.cometd_cookie_hours)
        secure = request.url.scheme == "https"
        for client in opened:
            if BROWSER not in request.cookies:
                response.set_cookie(
                    BROWSER, client.browser, secure=secure, httponly=True, samesite=None
                )
            if SERVER not in request.cookies:
                response.set_cookie(
                    SERVER, client.server, expires=expires, secure=secure, samesite=None
                )
        return response

    def _record(self, request: Request, messages: list[Message]) -> None:
        session = self._state.sessions.find(_token(request))
        names = request.headers.keys()
        self._state.call_log.call(
            RecordedCall(
                rpc="cometd",
                at=self._state.clock.now(),
                metadata=tuple(sorted(set(names))),
                org_id=self._org_id,
                client=session.client if session else "",
                subject=", ".join(message["channel"] for message in messages),
            )
        )

    # --- lost clients -----------------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _watch(self) -> None:
        """Schedule a check for when the next client may be lost."""
        at = self._clients.next_loss()
        if self._timer is None and at is not None:
            self._timer = asyncio.get_running_loop().call_at(at, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        for client in self._clients.lost(self._now()):
            self._meta.end(client, "CANCELLED")
        self._watch()


def _token(request: Request) -> str:
    """Token of a request; Salesforce's EMP-Connector sends it without a scheme."""
    header = request.headers.get("authorization", "").strip()
    return bearer(request) or ("" if " " in header else str(header))


def _json(parts: list[str], status: int = 200) -> Response:
    return Response(
        f"[{','.join(parts)}]".encode(),
        status_code=status,
        headers={"Content-Type": "application/json;charset=UTF-8"},
    )
