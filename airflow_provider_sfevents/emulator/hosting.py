"""Where a running emulator is reached: its ports, certificates and servers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow_provider_sfevents.emulator.server import GrpcHost, HttpHost, LoopThread, stop_all
from airflow_provider_sfevents.emulator.tls import Certificates, make_certificates

_WILDCARD = "0.0.0.0"  # noqa: S104 - compared with, to name an address that can be connected to


class Hosting:
    """Takes ports first, serves later, and gives everything back in `close`.

    :param folder: where certificates are kept; a temporary one where it is not given.
    """

    def __init__(self, *, host: str, folder: Path | None, tls: bool) -> None:
        self._host = host
        self._undo = ExitStack()
        self._https: list[HttpHost] = []
        self._waiting: list[tuple[HttpHost, Any]] = []
        self._grpc = GrpcHost()
        self._thread: LoopThread | None = None
        self._certificates = self._make_certificates(folder) if tls else None

    @property
    def grpc_port(self) -> int:
        return self._grpc.port

    @property
    def endpoint(self) -> str:
        """`host:port` of the Pub/Sub API."""
        return f"{self._name}:{self._grpc.port}"

    @property
    def ca_file(self) -> str:
        """What clients must trust; empty without TLS."""
        return str(self._certificates.ca_file) if self._certificates else ""

    def bind(self, port: int) -> HttpHost:
        """Take a port for HTTP; 0 for a free one.

        :raises PortInUse: when it is taken.
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

    def serve(self, handler: Any, grpc_port: int) -> None:
        """Start the thread, gRPC on this port, and HTTP on those that were taken.

        :raises PortInUse: when the port is taken.
        """
        self._thread = LoopThread()
        self._thread.start()
        self._thread.run(
            self._grpc.start(
                handler, host=self._host, port=grpc_port, certificates=self._certificates
            )
        )
        for http, app in self._waiting:
            self._thread.run(http.start(app, self._certificates))
        self._waiting.clear()

    def on_close(self, undo: Any) -> None:
        self._undo.callback(undo)

    def close(self) -> None:
        """Stop the servers, whatever of them runs, and free the ports."""
        thread, self._thread = self._thread, None
        if thread:
            thread.run(stop_all([self._grpc.stop, *(http.stop for http in self._https)]))
            thread.stop()
        for http in self._https:
            http.release()
        self._undo.close()

    @property
    def _name(self) -> str:
        return "127.0.0.1" if self._host == _WILDCARD else self._host

    def _make_certificates(self, folder: Path | None) -> Certificates:
        if folder is None:
            folder = Path(self._undo.enter_context(TemporaryDirectory(prefix="sfevents-emulator-")))
        folder.mkdir(parents=True, exist_ok=True)
        return make_certificates(folder, self._name)
