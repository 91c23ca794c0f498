"""Servers of the emulator: one thread and event loop for gRPC and for each HTTP host."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from google.protobuf import descriptor_pool
from typing_extensions import override

from airflow_provider_sfevents.emulator.errors import EmulatorError, PortInUseError
from airflow_provider_sfevents.emulator.extras import require

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool

    from airflow_provider_sfevents.emulator.network.certificates import Certificates

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
_log = logging.getLogger(__name__)
_START_SECONDS = 30.0
_POLL_SECONDS = 0.005


class ForgivingLoop(asyncio.SelectorEventLoop):
    """Event loop for gRPC that ignores callbacks after its close.

    grpc.aio has one completion queue for all loops of a process, and any loop may deliver a late
    event: the end of a call that was open when its loop closed. A plain loop raises "Event loop is
    closed", which the delivering loop then reports as its own error.
    """

    @override
    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            if not self.is_closed():
                raise
            return asyncio.Handle(callback, args, self, context)


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = ForgivingLoop()
        self.loop.set_exception_handler(_quiet)
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="sfevents-emulator", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result.

        :raises EmulatorError: the loop was stopped.
        """
        if self.loop.is_closed():
            work.close()
            raise EmulatorError("the emulator is not running; call start()")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_START_SECONDS)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_START_SECONDS)
        self.loop.close()


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore one harmless error of grpc.aio.

    grpc.aio has one completion queue for all event loops of a process. If a client in another loop
    closes that loop with calls open, their events arrive here as "Event loop is closed". The
    emulator loses nothing by it.
    """
    if "PollerCompletionQueue" in str(context.get("message")):
        return
    loop.default_exception_handler(context)


@dataclass(slots=True, kw_only=True)
class HttpHost:
    """One HTTP server on a port of its own.

    :param port: port that it listens on.
    """

    port: int
    _listener: socket.socket
    _task: asyncio.Task[None] | None = None
    _end: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def bound(cls, host: str, port: int) -> HttpHost:
        """Bind the port before anything runs, because URLs are part of the orgs' identities.

        :raises PortInUseError: the port is in use.
        """
        listener = take_port(host, port, "HTTP")
        listener.listen(socket.SOMAXCONN)
        return cls(port=listener.getsockname()[1], _listener=listener)

    async def start(self, app: Any, certificates: Certificates | None) -> None:
        uvicorn = require("uvicorn")
        tls = {"ssl_certfile": str(certificates.server_file)} if certificates else {}
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            date_header=False,  # the applications add it, by their org's clock
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
            **tls,
        )
        server = _until(self._end, uvicorn.Server)(config)
        self._task = asyncio.create_task(server.serve(sockets=[self._listener]))
        while not server.started:  # uvicorn has no event for the start
            if self._task.done():
                await self._task
                raise EmulatorError(f"the HTTP server on port {self.port} did not start")
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        self._end.set()
        if self._task:
            await self._task

    def release(self) -> None:
        """Release the port."""
        self._listener.close()


def _until(end: asyncio.Event, server: Any) -> Any:
    """Uvicorn server class that ends as soon as the event is set, instead of polling a flag."""

    class Server(server):  # type: ignore[misc]  # uvicorn is an extra and not typed here
        async def main_loop(self) -> None:
            await self.on_tick(0)
            await end.wait()

        async def shutdown(self, sockets: list[Any] | None = None) -> None:
            """Shut down without uvicorn's wait of 0.1 s if there are no connections."""
            if self.server_state.connections or self.server_state.tasks:
                await super().shutdown(sockets)
                return
            for listening in (*self.servers, *(sockets or ())):
                listening.close()

    return Server


class GrpcHost:
    """The gRPC server, in plain text on a private port behind the relay."""

    def __init__(self) -> None:
        self.port = 0
        self._server: Any = None

    async def start(
        self, handler: Any, *, streams_per_connection: int, connection_age: float | None
    ) -> None:
        """Serve these RPCs, and reflection for tools such as grpcurl.

        :param connection_age: age in seconds at which a connection ends with GOAWAY; None: never.
        """
        aio = require("grpc.aio")
        options = [
            (
                "grpc.max_receive_message_length",
                64 * 1024 * 1024,
            ),  # the servicer refuses larger requests, as the proxy does
            # Clients may ping at any rate; the real service is not known to refuse pings.
            ("grpc.http2.min_ping_interval_without_data_ms", 1000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.max_concurrent_streams", streams_per_connection),
        ]
        if connection_age is not None:
            options += [
                ("grpc.max_connection_age_ms", round(connection_age * 1000)),
                ("grpc.max_connection_age_grace_ms", 0),
            ]
        self._server = aio.server(options=options)
        self._server.add_generic_rpc_handlers((handler,))
        _describe_on(self._server, handler.service_name())
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def stop(self) -> None:
        if self._server:
            await self._server.stop(grace=None)


async def stop_all(stops: list[Callable[[], Awaitable[None]]]) -> None:
    """Stop all servers concurrently; a failure of one does not affect the others."""
    for outcome in await asyncio.gather(*(stop() for stop in stops), return_exceptions=True):
        if isinstance(outcome, BaseException):
            _log.warning("A server of the emulator did not stop cleanly: %r", outcome)


async def cancel_rest() -> None:
    """Cancel all remaining tasks of this loop."""
    pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in pending:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*pending, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


def take_port(host: str, port: int, what: str) -> socket.socket:
    """Bind a socket to a port, 0 for a free one; connections are refused until it listens.

    :raises PortInUseError: the port is in use.
    :raises EmulatorError: the number is no port, or the port cannot be bound.
    """
    if not 0 <= port < 65536:
        raise EmulatorError(
            f"{what} port {port} is not a port; give one up to 65535, or 0 for a free one"
        )
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"port {port} on {host} is in use; choose another {what} port, or 0 for a free one"
            ) from error
        raise EmulatorError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


class DescriptorSymbols:
    """Descriptor pool that also finds methods by name, which protobuf's own look-up does not."""

    def __init__(self, pool: DescriptorPool | None = None) -> None:
        self._pool = pool or descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802 - protobuf's
        """File that defines a message, service or method.

        :raises KeyError: no file defines the symbol.
        """
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = self._pool.FindServiceByName(service)
            if method not in found.methods_by_name:
                raise
            return found.file


def _describe_on(server: Any, service: str) -> None:
    """Enable reflection of this service on a gRPC server."""
    reflection = require("grpc_reflection.v1alpha.reflection")
    reflection.enable_server_reflection(
        (service, reflection.SERVICE_NAME), server, DescriptorSymbols()
    )
