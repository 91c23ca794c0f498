"""Session of a Spark Connect server: opened with checks before the fetch, interrupted on request.

1. Spark Connect pickles Python functions, so client and server need one minor version of Spark and
   one of Python, and the server needs this package's modules.
2. The modules are sent only if the server's Python does not have the same ones
   (`connect_checks`).
3. PySpark's client waits for a lost server for about ten minutes, and for a hanging one without a
   limit. Here it waits for seconds, and the task decides whether to open a new session.
4. PySpark chooses between its classic and its Connect functions by an environment variable, which
   is set while a session is open, and not for other processes that the task starts later.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import packaging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

log = logging.getLogger(__name__)

_REMOTE = "SPARK_CONNECT_MODE_ENABLED"
INTERRUPT_SECONDS = 5.0
RELEASE_SECONDS = 3.0
_INTERRUPT_PAUSE = 0.5
_RETRIES = {"max_retries": 6, "initial_backoff": 100, "max_backoff": 2_000}
_UI_CONFIG = (
    "spark.app.id",
    "spark.driver.appUIAddress",
    "spark.driver.host",
    "spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.PROXY_URI_BASES",
    "spark.ui.enabled",
    "spark.ui.port",
    "spark.ui.reverseProxyUrl",
)


class ConnectSession:
    """An open session.

    :ivar spark: the session itself.
    :ivar url: the server's address, without token and user.
    :ivar statements: number of statements that were sent.
    :ivar calls: number of calls whose answer the task waited for; each statement is one of them.
    :ivar operation: id of the latest statement's operation, as on the server's page.
    """

    def __init__(self, spark: Any, url: str) -> None:
        self.spark = spark
        self.url = url
        self.statements = 0
        self.calls = 0
        self.operation = "none"
        self._ended = threading.Event()

    @property
    def session_id(self) -> str:
        return str(self.spark.session_id)

    def ui_link(self) -> str:
        """Link of the server's Spark UI; empty if the server does not tell it."""
        asked = [(key, None) for key in _UI_CONFIG]
        said = self.spark.client.get_config_with_defaults(*asked)
        return ui_link(dict(zip(_UI_CONFIG, said, strict=True)))

    def interrupt(self) -> None:
        """Interrupt the session's statements for some seconds, without waiting for an answer.

        A statement that cannot be stopped ends on the server by itself. Tables stay right: it is
        as a second landing of the same batch.
        """
        threading.Thread(target=self._interrupt, daemon=True, name="sfevents-interrupt").start()

    def _interrupt(self) -> None:
        until = monotonic() + INTERRUPT_SECONDS
        while monotonic() < until and not self._ended.wait(_INTERRUPT_PAUSE):
            # The client's errors are of no use: the task ends.
            with suppress(Exception):
                self.spark.interruptAll()

    def send_modules(self) -> None:
        """Send this package's Spark modules; this process's import path stays as it is."""
        name, content = packaging.modules()
        paths = list(sys.path)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(content)
            try:
                self.spark.addArtifacts(str(path), pyfile=True)
            finally:
                sys.path[:] = paths

    def forget(self) -> None:
        """Close the connection without a request to the server, which is gone or does not answer.

        PySpark would repeat that request for seconds. It also waits, without a limit, for the
        answers to requests in the background, so the channel is closed first, which ends them.
        """
        self._ended.set()
        if self.spark is not None:
            self.spark.release_session_on_close = False
            client = self.spark.client
            with suppress(Exception):  # it is closed already
                client._channel.close()  # noqa: SLF001 - no other way
                self.spark.stop()
            # PySpark closes a session again when Python collects it, and then waits for the
            # requests of all sessions; in the middle of such a request it would wait without end.
            client.close = lambda: None

    def release(self) -> None:
        """End the session on the server, and close the connection to it."""
        if self._ended.is_set():
            return
        self._ended.set()
        thread = threading.Thread(target=self._release, daemon=True, name="sfevents-release")
        thread.start()
        thread.join(RELEASE_SECONDS)
        self.forget()

    def _release(self) -> None:
        with suppress(Exception):  # a server that is gone has no session to release
            self.spark.client.release_session()


@contextmanager
def open_session(
    url: str, *, seconds: float, before_statement: Callable[[], None] = lambda: None
) -> Iterator[ConnectSession]:
    """Open a session of its own for a task; it is released after the block.

    :param url: `sc://host:port`, with parameters such as the token.
    :param seconds: time for the server to take a connection.
    :param before_statement: called before each statement is sent; may raise an error instead.
    :raises ConfigurationError: the address is none.
    :raises TransportError: the server does not answer in time.
    """
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    shown = shown_address(url)
    try:
        builder = DefaultChannelBuilder(url)
    except PySparkException:
        # Its text may hold the token.
        raise ConfigurationError(
            f"{shown!r} is not the address of a Spark Connect server. Give the connection the host "
            "sc://<host>, without a path, and the port, usually 15002; parameters as key=value."
        ) from None
    session = ConnectSession(None, shown)

    class BeforeStatement(SparkSession.Hook):  # type: ignore[misc]
        def on_execute_plan(self, request: Any) -> Any:
            before_statement()
            session.statements += 1
            # PySpark would choose an id later, and keep it to itself.
            session.operation = request.operation_id = request.operation_id or str(uuid4())
            log.debug("Spark Connect operation %s.", session.operation)
            return request

    builder.add_interceptor(_counting(session))

    with _connect_functions():
        try:
            making = SparkSession.builder.channelBuilder(builder)
            hooked = making._registerHook(lambda _: BeforeStatement())  # noqa: SLF001 - no other way
            session.spark = hooked.create()  # also the process's session, which functions look for
            client = session.spark.client
            client.set_retry_policies([DefaultPolicy(backoff_multiplier=2.0, **_RETRIES)])
            try:
                grpc.channel_ready_future(client._channel).result(seconds)  # noqa: SLF001 - as above
            except grpc.FutureTimeoutError:
                session.forget()
                raise TransportError(
                    f"The Spark Connect server at {shown} does not answer within {seconds:g} s. "
                    "Start it, or correct host, port and use_ssl of the Spark connection."
                ) from None
            yield session
        finally:
            session.release()


def _counting(session: ConnectSession) -> Any:
    """Interceptor that counts a session's calls to the server, except `ReleaseExecute`.

    PySpark sends that in the background for each message of a statement, also for its progress.
    """
    import grpc

    class Calls(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
        @override
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            session.calls += not details.method.endswith("/ReleaseExecute")
            return continuation(details, request)

        @override
        def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
            session.calls += 1
            return continuation(details, request)

    return Calls()


@contextmanager
def _connect_functions() -> Iterator[None]:
    """Let PySpark use its functions for Spark Connect, and not warn of retries that fail."""
    before = os.environ.get(_REMOTE)
    os.environ[_REMOTE] = "1"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
            yield
    finally:
        if before is None:
            os.environ.pop(_REMOTE, None)
        else:
            os.environ[_REMOTE] = before


def ui_link(config: Mapping[str, str | None]) -> str:
    """Link of a Spark UI by the settings of its server; empty if they do not name it.

    :param config: values of `_UI_CONFIG`. A proxy comes before the address behind it.
    """
    application, proxy = config.get("spark.app.id"), config.get("spark.ui.reverseProxyUrl")
    if config.get("spark.ui.enabled") == "false":
        return ""
    if proxy and application:
        return f"{proxy.rstrip('/')}/proxy/{application}/"
    if proxies := config.get(_UI_CONFIG[3]):
        return proxies.partition(",")[0]
    if address := config.get("spark.driver.appUIAddress"):
        return address
    host, port = config.get("spark.driver.host"), config.get("spark.ui.port")
    return f"http://{host}:{port}/" if host and port and port != "0" else ""


def first_line(error: BaseException) -> str:
    """First line of an error, without the server's stack trace."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def shown_address(url: str) -> str:
    """Address without parameters: these hold the token."""
    return url.partition(";")[0].rstrip("/")
