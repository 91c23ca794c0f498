"""The test's side of what goes wrong: calls, connections, deliveries, tokens. Each verb may be called from any thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import EmulatorError, Refusal
from airflow_provider_sfevents.emulator.faults import Fault
from airflow_provider_sfevents.emulator.frames import HOWS

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.hosting import Hosting
    from airflow_provider_sfevents.emulator.state import State


class FaultVerbs(ABC):
    """What a test lets go wrong, for all orgs of an emulator."""

    _state: State

    @abstractmethod
    def _here(self) -> Hosting: ...

    @property
    @abstractmethod
    def _runs(self) -> bool: ...

    def _wake(self) -> None:
        """Let every stream look again."""
        for bus in tuple(self._state.buses.values()):
            bus.wake()

    # --- calls -------------------------------------------------------------------------------------------------------

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
        """Let the next calls of an RPC fail.

        :param rpc: `Subscribe`, `ManagedSubscribe`, `PublishStream`, `GetTopic`, `GetSchema`, `Publish`; over HTTP `token`,
            `userinfo`, `soap`, `rest`, `cometd`.
        :param error_code: with or without its prefix; its usual status goes with it. A `status` alone is an error of
            the transport, without trailers; neither is `service.unavailable`. The status OK ends a stream politely.
        :param how: `reset`, `goaway`, `rst_stream` or `half_open`: cut the connection instead, see `drop_connections`.
        :param times: so many calls. A stream that ends before its failure is due leaves it to the next stream.
        :param after: for streams, so many events are delivered, or published, on each of them first; for the others, so
            many calls are answered first.
        :param after_seconds: so long after the call began. With `after` on a stream, whichever comes first.
        :param late: for `Publish` and `PublishStream`: the events are published, and only the answer is lost.
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

    def faults(self) -> tuple[Fault, ...]:
        """What was ordered and has not come, and what is wrong with the network now."""
        state = self._state
        network = self._here().network(lambda relay: relay.conditions()) if self._runs else []
        lasting = tuple(Fault(how=condition) for condition in network)
        return (*state.faults.waiting(), *state.delivery.waiting(), *lasting)

    def clear_faults(self, rpc: str = "") -> None:
        """Forget what was ordered for an RPC; without one, all of it, and let the network be well again."""
        self._state.faults.clear(rpc)
        if rpc:
            return
        self._state.delivery.clear()
        if self._runs:
            self._here().network(lambda relay: relay.mend())
        self._wake()

    # --- connections -------------------------------------------------------------------------------------------------

    def drop_connections(self, how: str = "reset") -> None:
        """Cut everything that is open on the gRPC port, now; who connects again is served.

        :param how: `reset`: a TCP reset. `goaway`: GOAWAY, then the end of the connection. `rst_stream`: RST_STREAM for
            each open call, on connections that stay; the knob `rst_stream_error` names its error. `half_open`: nothing
            passes on them any more, and the service holds its streams, and managed subscriptions' slots, until the knob
            `half_open_seconds` is over. `end`: every stream ends politely, with OK.
        """
        if how == "end":
            self._state.running.end(Refusal("", "OK"))
        elif how in HOWS:
            self._here().network(lambda relay: relay.cut(how))
        else:
            raise EmulatorError(f"drop_connections: {how!r} is none of {', '.join(HOWS)}, end")

    def freeze(self, seconds: float | None = None) -> None:
        """Let not a byte pass the gRPC port, either way, for so long or until `thaw`: what half-open TCP looks like.

        Sockets stay open and new ones are accepted. Who closes one meanwhile is not noticed before the thaw.
        """
        self._here().network(lambda relay: relay.freeze(seconds))

    def thaw(self) -> None:
        """End a `freeze`; what was held back goes on its way."""
        self._here().network(lambda relay: relay.thaw())

    def away(self, seconds: float | None = None) -> None:
        """Reset every connection of the gRPC port and refuse new ones, for so long or until `back`."""
        self._here().network(lambda relay: relay.leave("reset", seconds))

    def back(self) -> None:
        """End `away`; the port is the same."""
        self._here().network(lambda relay: relay.listen())

    def restart(self, seconds: float = 0.0) -> None:
        """Do what clients see of a server that restarts: GOAWAY, connections refused for so long, service on the same port.

        Events, tokens, counts and waiting faults remain. To lose what memory holds, stop the emulator and start it with
        the same folder.
        """
        network = self._here().network
        if seconds > 0:
            network(lambda relay: relay.leave("goaway", seconds))
        else:
            network(lambda relay: relay.leave("goaway", None))
            network(lambda relay: relay.listen())

    def trickle(self, rpc: str = "", *, bytes_per_second: int | None) -> None:
        """Let responses crawl from now on.

        :param rpc: only on connections that carry a call of it; empty: on all.
        :param bytes_per_second: for each connection as a whole; None or 0 for full speed again.
        """
        if bytes_per_second is not None and bytes_per_second < 0:
            raise EmulatorError(f"trickle: bytes_per_second={bytes_per_second} must be 0 or more")
        self._here().network(lambda relay: relay.trickle(rpc, bytes_per_second))

    # --- deliveries --------------------------------------------------------------------------------------------------

    def repeat_next(self, events: int = 1) -> None:
        """Deliver each of the next events twice, one behind the other, with the same replay id.

        Both count as delivered and take credit.
        """
        self._state.delivery.repeat(events)

    def reorder_next(self, events: int = 2) -> None:
        """Deliver the next events, as many of them as there are then, in reverse order."""
        self._state.delivery.reorder(events)

    def resend_on_reconnect(self, events: int = 1, *, times: int = 1) -> None:
        """Let the next streams that start after a replay id begin so many events earlier."""
        self._state.delivery.resend(events, times)

    def pause_keepalives(self) -> None:
        """Send no keepalive on any stream, until `resume_keepalives`."""
        self._state.delivery.keepalives_paused = True

    def resume_keepalives(self) -> None:
        """End `pause_keepalives`; a keepalive that is due is sent at once."""
        self._state.delivery.keepalives_paused = False
        self._wake()

    # --- tokens ------------------------------------------------------------------------------------------------------

    def expire_tokens(self, in_stream: bool | None = None) -> None:
        """Make every token given out so far stop being good.

        :param in_stream: whether running streams end, with `service.auth.error`; as the knob `expiry_ends_streams` says
            where it is not given.
        """
        if in_stream is False:
            self._state.running.outlive_sessions()
        self._state.sessions.expire_all()
        if in_stream:
            self._state.running.end(Refusal("service.auth.error"))
        self._wake()

    def revoke(self, token: str) -> None:
        """Make this token stop being good, be it an access token or an app's refresh token."""
        self._state.sessions.revoke(token)
        self._wake()

    # --- users -------------------------------------------------------------------------------------------------------

    def lock_out(self, username: str) -> None:
        """Let a user no longer log in with name and password, over OAuth and SOAP; tokens given out stay good."""
        self._state.sessions.lock_out(username)

    def unlock(self, username: str) -> None:
        """End `lock_out`."""
        self._state.sessions.unlock(username)
