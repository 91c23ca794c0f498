"""Ports, certificates and servers of a running emulator."""

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
    """Binds ports first, serves later, and releases everything in `close`.

    :param folder: folder to lock for this emulator, also for certificates; otherwise a temporary
        one.
    :raises EmulatorError: another emulator uses the folder, or it cannot be written.
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
        """Path of the certificate that clients must trust; empty without TLS."""
        return str(self._certificates.ca_file) if self._certificates else ""

    def bind(self, port: int) -> HttpHost:
        """Bind a port for HTTP; 0 for a free one.

        :raises PortInUseError: the port is in use.
        """
        http = HttpHost.bound(self._host, port)
        self._https.append(http)
        return http

    def url(self, http: HttpHost) -> str:
        return f"{'https' if self._certificates else 'http'}://{self._name}:{http.port}"

    def mount(self, http: HttpHost, app: Any) -> None:
        """Serve an application on a bound port, at once or when `serve` is called."""
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
        """Start the thread, gRPC on this port, and HTTP on the bound ports.

        :param rst_error: HTTP/2 error of the relay's RST_STREAM.
        :param half_open_seconds: time for which the server keeps a half-open connection.
        :param streams_per_connection: concurrent RPCs on one HTTP/2 connection.
        :param connection_age: seconds that a connection lasts; None: no limit.
        :raises PortInUseError: the port is in use.
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
        """Call a function with the relay from any other thread, and return its result."""
        thread, relay = self._thread, self._relay
        if thread is None or relay is None:
            raise EmulatorError("the emulator is not running; call start()")

        async def carry_out() -> T:
            return order(relay)

        return thread.run(carry_out())

    def carries(self, peer: str, rpc: str) -> None:
        """Record that a connection carries an RPC; called in the relay's thread."""
        if self._relay:
            self._relay.carries(peer, rpc)

    async def _front(self, first: socket.socket, rst_error: str, half_open_seconds: float) -> None:
        """Start the relay in front of the gRPC server."""
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
        """Stop the servers, then the relay, so that their last responses reach the clients."""
        await stop_all([self._grpc.stop, *(http.stop for http in self._https)])
        if self._relay:
            await stop_all([self._relay.stop])
        await cancel_rest()

    def on_close(self, undo: Any) -> None:
        self._undo.callback(undo)

    def close(self) -> None:
        """Stop the running servers and release the ports."""
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
