"""What every stream has, whichever way its events go: it waits, a test can end it, a fault may befall it, its token may die."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.faults.http2_frames import order

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

# When a connection breaks, gRPC clients drop what has arrived and was not read by their application: let it be read first.
_READING_SECONDS = 0.5


class OpenCall:
    """A call that goes on until one side has enough.

    :param rpc: for faults that were ordered.
    :param context: the call, for reading requests and writing responses.
    :param session: whose call it is.
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
        """End soon, with this status; called from any thread."""
        self._ending = refusal
        self._rouse()

    def outlive_session(self) -> None:
        """Go on whatever becomes of the token; called from any thread."""
        self._outlives_session = True

    def _rouse(self) -> None:
        """Look again; called from any thread."""
        self._loop.call_soon_threadsafe(self._wake.set)

    def _check_session(self) -> None:
        """:raises RefusalError: when its token is no longer good, and that ends streams."""
        # Asked before each response: a running stream is use, which keeps its session alive.
        alive = self._state.sessions.find(self._session.token) is not None
        if not alive and not self._outlives_session:
            raise RefusalError("service.auth.error")

    def _refresh(self, token: str) -> None:
        """Go on under another token, as a request's `auth_refresh` asks.

        :raises RefusalError: when it is no good token of this org.
        """
        session = self._state.sessions.find(token)
        if session is None or session.org_id != self._session.org_id:
            status = self._state.knobs.auth_refresh_status
            raise RefusalError("service.auth.refresh.invalid", status)
        self._session = session

    def _lasted(self) -> float:
        return self._loop.time() - self._began

    async def _fail_if_due(self, events: int) -> None:
        """Carry a fault out that is due after so many events; where it cuts the connection, wait for that to be noticed."""
        if self._fault is None or not self._fault.is_due(events, self._lasted()):
            return
        fault, self._fault = self._fault, None
        if not fault.how:
            self._ending = fault.refusal
            return
        await asyncio.sleep(_READING_SECONDS)
        await self._context.write(order(fault.how))
        await asyncio.Event().wait()

    def _give_back(self) -> None:
        """Leave a fault that was not due to the next stream."""
        if self._fault:
            self._state.faults.give_back(self._fault)

    async def _wait(self, seconds: float) -> None:
        """Wait until something comes in, for so long, or until a fault is due."""
        if self._fault and self._fault.after_seconds is not None:
            seconds = min(seconds, self._fault.after_seconds - self._lasted())
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
