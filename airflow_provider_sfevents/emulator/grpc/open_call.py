"""Common parts of all streams: waiting, ending by a test, faults, expiry of the token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.faults.http2_frames import order

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

# When a connection breaks, gRPC clients drop responses that the application has not read. Wait, so
# that it can read them.
_READING_SECONDS = 0.5


class OpenCall:
    """A call that stays open until one side ends it.

    :param rpc: name of the RPC, for ordered faults.
    :param context: gRPC context, for reading requests and writing responses.
    :param session: session of the client.
    """

    def __init__(
        self, *, rpc: str, context: Any, state: EmulatorState, session: OrgSession
    ) -> None:
        self._context = context
        self._state = state
        self._session = session
        self._fault: FaultOrder | None = state.faults.take(rpc)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._wake = asyncio.Event()
        self._ending: RefusalError | None = None
        self._outlives_session = not state.knobs.expiry_ends_streams

    def end(self, refusal: RefusalError) -> None:
        """End soon with this status; called from any thread."""
        self._ending = refusal
        self._rouse()

    def outlive_session(self) -> None:
        """Stay open even if the token expires; called from any thread."""
        self._outlives_session = True

    def _rouse(self) -> None:
        """Check the state again; called from any thread."""
        self._loop.call_soon_threadsafe(self._wake.set)

    def _check_session(self) -> None:
        """Check the token.

        :raises RefusalError: the token is invalid, and an invalid token ends streams.
        """
        # Checked before each response: an active stream keeps its session alive.
        alive = self._state.sessions.find(self._session.token) is not None
        if not alive and not self._outlives_session:
            raise RefusalError("service.auth.error")

    def _refresh(self, token: str) -> None:
        """Switch to the token of a request's `auth_refresh`.

        :raises RefusalError: the token is not valid in this org.
        """
        session = self._state.sessions.find(token)
        if session is None or session.org_id != self._session.org_id:
            status = self._state.knobs.auth_refresh_status
            raise RefusalError("service.auth.refresh.invalid", status)
        self._session = session

    def _lasted(self) -> float:
        return self._loop.time() - self._began

    async def _fail_if_due(self, events: int) -> None:
        """Apply a fault that is due after this number of events.

        If it cuts the connection, wait until the client notices.
        """
        if self._fault and self._state.faults.is_cleared(self._fault):
            self._fault = None
        if self._fault is None or not self._fault.is_due(events, self._lasted()):
            return
        fault, self._fault = self._fault, None
        self._state.faults.happens(fault)
        if not fault.how:
            self._ending = fault.refusal
            return
        await asyncio.sleep(_READING_SECONDS)
        await self._context.write(order(fault.how))
        await asyncio.Event().wait()

    def _give_back(self) -> None:
        """Return an unused fault for the next stream."""
        if self._fault:
            self._state.faults.give_back(self._fault)

    async def _wait(self, seconds: float) -> None:
        """Wait for input, for `seconds` at most, or until a fault is due."""
        if self._fault and self._fault.after_seconds is not None:
            seconds = min(seconds, self._fault.after_seconds - self._lasted())
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
