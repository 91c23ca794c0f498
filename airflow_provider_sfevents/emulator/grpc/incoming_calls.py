"""Start and end of every RPC: check headers, record the call, report refusals with trailers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.errors import RefusalError, UnwritableError
from airflow_provider_sfevents.emulator.state.call_log import RecordedCall

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

# A departed client causes a cancelled task, or a failed read or write. gRPC does not treat a
# cancelled task as an error.
_GONE = (aio.UsageError, aio.InternalError)
Context = Any  # grpc.aio.ServicerContext, whose type parameters are not used here


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedCall:
    """An authenticated call: session, bus and rpc id."""

    session: OrgSession
    bus: Bus
    rpc_id: str


class IncomingCalls:
    """Checks and records incoming calls."""

    def __init__(self, state: EmulatorState) -> None:
        self._state = state

    def rpc_id(self) -> str:
        return salesforce_ids.rpc_id(self._state.knobs.rpc_id_style)

    def check_headers(self, rpc: str, context: Context) -> None:
        """Check the headers of a stream without a request.

        :raises RefusalError: the headers are invalid.
        """
        self._session(self._call(rpc, context, ""), context)

    def authentic(self, rpc: str, rpc_id: str, context: Context, subject: str) -> AuthenticatedCall:
        """Record a call and check its headers.

        :raises RefusalError: the headers are invalid, or the org makes too many calls.
        """
        self._state.carries(context.peer(), rpc)
        call = self._call(rpc, context, subject)
        session = self._session(call, context)
        self._state.call_log.call(replace(call, org_id=session.org_id, client=session.client))
        self._state.protection.call(session.org_id, asyncio.get_running_loop().time())
        return AuthenticatedCall(
            session=session, bus=self._state.bus(session.org_id), rpc_id=rpc_id
        )

    def topic(self, name: str, caller: AuthenticatedCall) -> BusTopic:
        """Find a topic by its exact name.

        :raises RefusalError: the org has no such topic, or the Streaming API alone serves it; names
            are case-sensitive.
        """
        if not name.strip():
            raise RefusalError("topic.validation.empty")
        topic = caller.bus.topic(name)
        if topic is not None and not topic.streaming_only:
            return topic
        if self._state.knobs.unknown_topic == "NOT_FOUND":
            raise RefusalError("topic.not.found", message=f"The topic {name} was not found.")
        raise RefusalError(
            "topic.meta.permission",
            message="An error occurred while getting the metadata for org "
            f"CORE/prod/{caller.session.org_id} and topic "
            f"{name}. Ensure the credentials and topic name are correct.",
        )

    def _call(self, rpc: str, context: Context, subject: str) -> RecordedCall:
        metadata = tuple(sorted(_metadata(context)))
        return RecordedCall(rpc=rpc, at=self._state.clock.now(), metadata=metadata, subject=subject)

    def _session(self, call: RecordedCall, context: Context) -> OrgSession:
        """Session of the headers; a call without one is recorded too."""
        try:
            return self._state.sessions.authenticate(_metadata(context))
        except RefusalError:
            self._state.call_log.call(call)
            raise

    async def round_trip(self) -> None:
        """Wait for the simulated round trip of a call."""
        if self._state.knobs.round_trip_seconds:
            await asyncio.sleep(self._state.knobs.round_trip_seconds)


def _metadata(context: Context) -> dict[str, Any]:
    return dict(context.invocation_metadata() or ())


class RefusalStatus:
    """Reports a refusal as the call's status and trailers; records other errors as defects.

    A journal that cannot be written is refused as by a service that is not available.
    """

    def __init__(self, state: EmulatorState, rpc: str, rpc_id: str, context: Context) -> None:
        self._state, self._rpc, self._rpc_id, self._context = state, rpc, rpc_id, context

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UnwritableError):
            error = RefusalError("service.unavailable", message=f"{error}.")
        try:
            if isinstance(error, RefusalError):
                await self._abort(error)
        except _GONE as gone:
            raise asyncio.CancelledError from gone
        if isinstance(error, _GONE):
            raise asyncio.CancelledError from error
        if isinstance(error, Exception) and not isinstance(error, aio.AbortError):
            self._state.defect(error)

    async def _abort(self, refusal: RefusalError) -> None:
        trailers = (
            ("error-code", refusal.error_code),
            ("rpc-id", self._rpc_id),
            ("type", self._rpc),
        )
        status = dict(self._state.knobs.statuses).get(refusal.code, refusal.status)
        await self._context.abort(
            grpc.StatusCode[status],
            f"{refusal.message} rpcId: {self._rpc_id}" if refusal.code else refusal.message,
            trailers if refusal.code else (),
        )
