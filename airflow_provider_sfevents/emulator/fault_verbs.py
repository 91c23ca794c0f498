"""Fault verbs of a test: calls, connections, deliveries, tokens. Callable from any thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import EmulatorError, RefusalError
from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder
from airflow_provider_sfevents.emulator.faults.http2_frames import HOWS

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.network.hosting import Hosting
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState


class FaultVerbs(ABC):
    """Fault verbs for all orgs of an emulator."""

    _state: EmulatorState

    @abstractmethod
    def _here(self) -> Hosting: ...

    @property
    @abstractmethod
    def _runs(self) -> bool: ...

    def _wake(self) -> None:
        """Make every stream check its state."""
        for bus in tuple(self._state.buses.values()):
            bus.wake()

    # --- calls ------------------------------------------------------------------------------------

    def fail_next(
        self,
        rpc: str,
        *,
        error_code: str = "",
        status: str = "",
        message: str = "",
        how: str = "",
        times: int = 1,
        after: int = 0,
        after_seconds: float | None = None,
        late: bool = False,
    ) -> None:
        """Make the next calls of an RPC fail.

        :param rpc: `Subscribe`, `ManagedSubscribe`, `PublishStream`, `GetTopic`, `GetSchema`,
            `Publish`; over HTTP `token`, `userinfo`, `soap`, `rest`, `cometd`.
        :param error_code: with or without its prefix; its usual status is added. A `status` alone
            is a transport error, without trailers; neither means `service.unavailable`. The status
            OK ends a stream normally.
        :param how: `reset`, `goaway`, `rst_stream` or `half_open`: cut the connection instead, see
            `drop_connections`. For `cometd` the request is carried out, and its answer is
            disturbed: `reset` breaks it off in the middle, `hold` holds it back for `after_seconds`
            (default 1), as a proxy that buffers, `cookies` takes the session's cookie away.
        :param times: number of calls. A stream that ends before its fault is due leaves the fault
            to the next stream.
        :param after: streams: number of events delivered or published on the stream first; other
            calls: number of calls answered first.
        :param after_seconds: seconds after the start of the call. With `after` on a stream,
            whichever comes first.
        :param late: for `Publish` and `PublishStream`: publish the events and lose only the answer.
        """
        self._state.faults.add(
            rpc,
            error_code=error_code,
            status=status,
            message=message,
            how=how,
            times=times,
            after=after,
            after_seconds=after_seconds,
            late=late,
        )

    def faults(self) -> tuple[FaultOrder, ...]:
        """Pending faults, and the current network conditions."""
        state = self._state
        network = self._here().network(lambda relay: relay.conditions()) if self._runs else []
        lasting = tuple(FaultOrder(how=condition) for condition in network)
        return (*state.faults.waiting(), *state.delivery.waiting(), *lasting)

    def clear_faults(self, rpc: str = "") -> None:
        """Remove the faults of an RPC; without one, remove all and repair the network."""
        self._state.faults.clear(rpc)
        if rpc:
            return
        self._state.delivery.clear()
        if self._runs:
            self._here().network(lambda relay: relay.mend())
        self._wake()

    # --- connections ------------------------------------------------------------------------------

    def drop_connections(self, how: str = "reset") -> None:
        """Cut everything that is open on the gRPC port, now; new connections are served.

        :param how: `reset`, `goaway`, `rst_stream` or `half_open`: cut the connection instead, see
            `drop_connections`.
        """
        if how == "end":
            self._state.running.end(RefusalError("", "OK"))
        elif how in HOWS:
            self._here().network(lambda relay: relay.cut(how))
        else:
            raise EmulatorError(f"drop_connections: {how!r} is not one of {', '.join(HOWS)}, end")

    def freeze(self, seconds: float | None = None) -> None:
        """Pass no byte on the gRPC port, in either direction: the behaviour of half-open TCP.

        For `seconds`, or until `thaw`. Sockets stay open and new ones are accepted. A socket that a
        client closes meanwhile is noticed after the thaw.
        """
        self._here().network(lambda relay: relay.freeze(seconds))

    def thaw(self) -> None:
        """End a `freeze`; the bytes that were held back are sent."""
        self._here().network(lambda relay: relay.thaw())

    def away(self, seconds: float | None = None) -> None:
        """Reset every connection of the gRPC port and refuse new ones.

        For `seconds`, or until `back`.
        """
        self._here().network(lambda relay: relay.leave("reset", seconds))

    def back(self) -> None:
        """End `away`; the port is the same."""
        self._here().network(lambda relay: relay.listen())

    def restart(self, seconds: float = 0.0) -> None:
        """Imitate a restart of the service: GOAWAY, refused connections, then the same port.

        The sessions of the Streaming API are lost. Events, tokens, counts and pending faults
        remain. To lose what is in memory, stop the
        emulator and start it with the same folder.
        """
        network = self._here().network
        self._state.cometd.lose_all()
        if seconds > 0:
            network(lambda relay: relay.leave("goaway", seconds))
        else:
            network(lambda relay: relay.leave("goaway", None))
            network(lambda relay: relay.listen())

    def trickle(self, rpc: str = "", *, bytes_per_second: int | None) -> None:
        """Slow down responses from now on.

        :param rpc: only on connections that carry a call of this RPC; empty: on all.
        :param bytes_per_second: limit per connection; None or 0 for full speed.
        """
        if bytes_per_second is not None and bytes_per_second < 0:
            raise EmulatorError(f"trickle: bytes_per_second={bytes_per_second} must be 0 or more")
        self._here().network(lambda relay: relay.trickle(rpc, bytes_per_second))

    # --- deliveries -------------------------------------------------------------------------------

    def repeat_next(self, events: int = 1) -> None:
        """Deliver each of the next events twice in a row, with the same replay id.

        Both count as delivered and use credit. Over the Streaming API both are in one response.
        """
        self._state.delivery.repeat(events)

    def reorder_next(self, events: int = 2) -> None:
        """Deliver the next events in reverse order, as many as are available then."""
        self._state.delivery.reorder(events)

    def resend_on_reconnect(self, events: int = 1, *, times: int = 1) -> None:
        """Make the next streams that start after a replay id begin `events` events earlier."""
        self._state.delivery.resend(events, times)

    def pause_keepalives(self) -> None:
        """Send no keepalive on any stream, until `resume_keepalives`."""
        self._state.delivery.keepalives_paused = True

    def resume_keepalives(self) -> None:
        """End `pause_keepalives`; a keepalive that is due is sent at once."""
        self._state.delivery.keepalives_paused = False
        self._wake()

    # --- tokens -----------------------------------------------------------------------------------

    def expire_tokens(self, in_stream: bool | None = None) -> None:
        """Invalidate every token issued so far.

        :param in_stream: end running streams with `service.auth.error`; by default as the knob
            `expiry_ends_streams` says.
        """
        if in_stream is False:
            self._state.running.outlive_sessions()
        self._state.sessions.expire_all()
        if in_stream:
            self._state.running.end(RefusalError("service.auth.error"))
        self._wake()

    def revoke(self, token: str) -> None:
        """Invalidate a token: an access token or an app's refresh token."""
        self._state.sessions.revoke(token)
        self._wake()

    # --- users ------------------------------------------------------------------------------------

    def lock_out(self, username: str) -> None:
        """Refuse logins with this user's password, over OAuth and SOAP.

        Issued tokens stay valid.
        """
        self._state.sessions.lock_out(username)

    def unlock(self, username: str) -> None:
        """End `lock_out`."""
        self._state.sessions.unlock(username)
