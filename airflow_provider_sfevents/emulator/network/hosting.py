"""Where a running emulator is reached: its ports, certificates and servers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.faults.relay import Relay
from airflow_provider_sfevents.emulator.network.certificates import Certificates, make_certificates
from airflow_provider_sfevents.emulator.network.servers import (
    GrpcHost,
    HttpHost,
    LoopThread,
    cancel_rest,
    stop_all,
    take_port,
)
from airflow_provider_sfevents.emulator.state_folder import lock

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

T = TypeVar("T")
_WILDCARD = "0.0.0.0"  # noqa: S104 - compared with, to name an address that can be connected to


class Hosting:
    """Takes ports first, serves later, and gives everything back in `close`.

    :param folder: kept for this emulator alone, and where certificates are; a temporary one for these where it is not given.
    :raises EmulatorError: when another emulator has the folder, or it cannot be written.
    """

    def __init__(self, *, host: str, folder: Path | None, tls: bool) -> None:
        self._host = host
        self._https: list[HttpHost] = []
        self._waiting: list[tuple[HttpHost, Any]] = []
        self._grpc = GrpcHost()
        self._relay: Relay | None = None
        self._thread: LoopThread | None = None
        self.grpc_port = 0
        with ExitStack() as undo:
            if folder:
                undo.callback(lock(folder).close)
            self._certificates = _certificates(undo, folder, self._name) if tls else None
            self._undo = undo.pop_all()

    @property
    def endpoint(self) -> str:
        """`host:port` of the Pub/Sub API."""
        return f"{self._name}:{self.grpc_port}"

    @property
    def ca_file(self) -> str:
        """What clients must trust; empty without TLS."""
        return str(self._certificates.ca_file) if self._certificates else ""

    def bind(self, port: int) -> HttpHost:
        """Take a port for HTTP; 0 for a free one.

        :raises PortInUseError: when it is taken.
        """
        http = HttpHost.bound(self._host, port)
        self._https.append(http)
        return http

    def url(self, http: HttpHost) -> str:
        return f"{'https' if self._certificates else 'http'}://{self._name}:{http.port}"

    def mount(self, http: HttpHost, app: Any) -> None:
        """Serve an application on a port that was taken: at once, or as soon as `serve` is called."""
        if self._thread:
            self._thread.run(http.start(app, self._certificates))
        else:
            self._waiting.append((http, app))

    def serve(
        self,
        handler: Any,
        grpc_port: int,
        *,
        rst_error: str,
        half_open_seconds: float,
        streams_per_connection: int,
        connection_age: float | None,
    ) -> None:
        """Start the thread, gRPC on this port, and HTTP on those that were taken.

        :param rst_error: HTTP/2 error of the relay's RST_STREAM.
        :param half_open_seconds: how long the server holds a connection that was cut without a word.
        :param streams_per_connection: RPCs at once on one HTTP/2 connection.
        :param connection_age: seconds a connection lasts; None for as long as it likes.
        :raises PortInUseError: when the port is taken.
        """
        first = take_port(self._host, grpc_port, "gRPC")
        self._undo.callback(first.close)
        self.grpc_port = first.getsockname()[1]
        self._thread = LoopThread()
        self._thread.start()
        self._thread.run(
            self._grpc.start(
                handler,
                streams_per_connection=streams_per_connection,
                connection_age=connection_age,
            )
        )
        self._thread.run(self._front(first, rst_error, half_open_seconds))
        for http, app in self._waiting:
            self._thread.run(http.start(app, self._certificates))
        self._waiting.clear()

    def network(self, order: Callable[[Relay], T]) -> T:
        """Tell or ask the relay something, from any thread but its own; returns when it is done."""
        thread, relay = self._thread, self._relay
        if thread is None or relay is None:
            raise EmulatorError("the emulator is not running; call start()")

        async def carry_out() -> T:
            return order(relay)

        return thread.run(carry_out())

    def carries(self, peer: str, rpc: str) -> None:
        """Note which connection carries which RPC; called by the server, in the relay's thread."""
        if self._relay:
            self._relay.carries(peer, rpc)

    async def _front(self, first: socket.socket, rst_error: str, half_open_seconds: float) -> None:
        """Put the relay in front of the gRPC server."""
        self._relay = Relay(
            port=first,
            again=lambda: take_port(self._host, self.grpc_port, "gRPC"),
            target=self._grpc.port,
            tls=self._certificates.server_context() if self._certificates else None,
            rst_error=rst_error,
            half_open_seconds=half_open_seconds,
        )
        self._relay.listen()

    async def _stop(self) -> None:
        """Stop the servers, then what stands in front of them: what they said last is to reach the clients."""
        await stop_all([self._grpc.stop, *(http.stop for http in self._https)])
        if self._relay:
            await stop_all([self._relay.stop])
        await cancel_rest()

    def on_close(self, undo: Any) -> None:
        self._undo.callback(undo)

    def close(self) -> None:
        """Stop the servers, whatever of them runs, and free the ports."""
        thread, self._thread = self._thread, None
        with self._undo:
            for http in self._https:
                self._undo.callback(http.release)
            if thread:
                self._undo.callback(thread.stop)
                thread.run(self._stop())

    @property
    def _name(self) -> str:
        return "127.0.0.1" if self._host == _WILDCARD else self._host


def _certificates(undo: ExitStack, folder: Path | None, name: str) -> Certificates:
    if folder is None:
        folder = Path(undo.enter_context(TemporaryDirectory(prefix="sfevents-emulator-")))
    return make_certificates(folder, name)
