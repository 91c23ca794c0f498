"""Session of a Spark Connect server: opened with checks before the fetch, interrupted on request.

1. Spark Connect pickles Python functions, so client and server need one minor version of Spark and
   one of Python, and the server needs this package's modules.
2. The modules are sent only if the server's Python does not have the same ones. Each session that
   has files of its own starts Python workers of its own on the server (Spark 4.1, SPARK-54055), so
   a server with the package installed starts tasks sooner.
3. PySpark's client waits for a lost server for about ten minutes. Here it waits for seconds, and
   the task decides whether to open a new session (`is_lost`).
4. PySpark chooses between its classic and its Connect functions by an environment variable, which
   is set while a session is open, and not for other processes that the task starts later.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import packaging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

NEEDED = ("fastavro", "numpy", "pyarrow", "pandas")
"""Packages that the server's Python needs to decode events."""

_REMOTE = "SPARK_CONNECT_MODE_ENABLED"
INTERRUPT_SECONDS = 5.0
_INTERRUPT_PAUSE = 0.5
_RETRIES = {"max_retries": 6, "initial_backoff": 100, "max_backoff": 2_000}
_LOST = re.compile(
    r"INVALID_HANDLE\.(?:SESSION|OPERATION)_\w+|SESSION_CHANGED|NO_ACTIVE_SESSION"
    r"|StatusCode\.UNAVAILABLE|Connection reset|Socket closed|RETRIES_EXCEEDED"
    r"|SparkContext was shut"
)
_CANCELLED = re.compile(r"OPERATION_CANCELED|StatusCode\.CANCELLED|Cannot invoke RPC on closed")
_FIXED = re.compile(r"CANNOT_MODIFY_(?:STATIC_)?CONFIG")
_PYTHONS = re.compile(r"PYTHON_VERSION_MISMATCH\]? ?(?P<said>[^\n]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPython:
    """The Python in which the server runs functions.

    :param version: minor version, such as `3.11`.
    :param modules: name of the zip that `packaging.modules` makes of the package that is installed
        there; empty without one.
    :param missing: those of `NEEDED` that it does not have.
    """

    version: str
    modules: str
    missing: tuple[str, ...]


class ConnectSession:
    """An open session.

    :ivar spark: the session itself.
    :ivar url: the server's address, without token and user.
    :ivar statements: number of statements that were sent.
    """

    def __init__(self, spark: Any, url: str) -> None:
        self.spark = spark
        self.url = url
        self.statements = 0
        self._ended = threading.Event()

    @property
    def session_id(self) -> str:
        return str(self.spark.session_id)

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

    def release(self) -> None:
        """End the session on the server, and close the connection to it."""
        self._ended.set()
        with suppress(Exception):  # a server that is gone has no session to release
            self.spark.stop()


@contextmanager
def open_session(
    url: str, *, seconds: float, before_statement: Callable[[], None] = lambda: None
) -> Iterator[ConnectSession]:
    """Open a session of its own for a task; it is released after the block.

    :param url: `sc://host:port`, with parameters such as the token.
    :param seconds: time for the server to take a connection.
    :param before_statement: called before each statement is sent; may raise an error instead.
    :raises ConfigurationError: the address is none, or the versions differ.
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
    except PySparkException as error:
        raise ConfigurationError(
            f"{shown} is not the address of a Spark Connect server: {first_line(error)} Give the "
            "connection the host sc://<host> and the port, usually 15002."
        ) from None
    before = os.environ.get(_REMOTE)
    os.environ[_REMOTE] = "1"
    session = ConnectSession(None, shown)

    class BeforeStatement(SparkSession.Hook):  # type: ignore[misc]
        def on_execute_plan(self, request: Any) -> Any:
            before_statement()
            session.statements += 1
            return request

    try:
        session.spark = SparkSession(
            connection=builder, hook_factories=[lambda _: BeforeStatement()]
        )
        client = session.spark.client
        client.set_retry_policies([DefaultPolicy(backoff_multiplier=2.0, **_RETRIES)])
        try:
            grpc.channel_ready_future(client._channel).result(seconds)  # noqa: SLF001 - no other way
        except grpc.FutureTimeoutError:
            raise TransportError(
                f"The Spark Connect server at {shown} does not answer within {seconds:g} s. "
                "Nothing was fetched. Start it, or correct host, port and use_ssl of the Spark "
                "connection."
            ) from None
        yield session
    finally:
        session.release()
        if before is None:
            os.environ.pop(_REMOTE, None)
        else:
            os.environ[_REMOTE] = before


class Checks:
    """Checks of an open session that together have a limited time.

    :param seconds: time for all of them.
    """

    def __init__(self, session: ConnectSession, seconds: float) -> None:
        self._session = session
        self._seconds = seconds
        self._until = monotonic() + seconds

    def run(self, what: str, check: Callable[[], T]) -> T:
        """Run a check, in a thread that is left behind if it has no answer in time.

        :param what: names it in the error: "reads a file of the staging area".
        :raises TransportError: there was no answer in time.
        """
        answer: Future[T] = Future()

        def work() -> None:
            try:
                answer.set_result(check())
            except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
                answer.set_exception(error)

        threading.Thread(target=work, daemon=True, name="sfevents-check").start()
        try:
            return answer.result(max(self._until - monotonic(), 0.0))
        except FutureTimeoutError:
            self._session.interrupt()
            raise TransportError(
                f"The Spark Connect server at {self._session.url} was checked for "
                f"{self._seconds:g} s, and has not answered this: {what}. Nothing was fetched. A "
                "server that has just started, or that has many tasks, may need longer: [sfevents] "
                "spark_connect_check_seconds."
            ) from None


def check_spark_version(client: str, server: str, url: str) -> None:
    """:raises ConfigurationError: client and server differ in the minor version of Spark."""
    if minor(client) != minor(server):
        raise ConfigurationError(
            f"The Spark Connect server at {url} runs Spark {server}, and this worker has pyspark "
            f"{client}. Nothing was fetched. Both need the same minor version: run the server with "
            f"Spark {minor(client)}, or use a Spark connection of type spark, which runs "
            "spark-submit."
        )


def check_python(worker: str, server: ServerPython, url: str) -> None:
    """:raises ConfigurationError: the server's Python cannot run this package's functions."""
    if server.version != worker:
        raise ConfigurationError(_pythons_differ(url, f"{server.version} there, {worker} here"))
    if server.missing:
        raise ConfigurationError(
            f"The Python of the Spark Connect server at {url} has no {', '.join(server.missing)}. "
            "Nothing was fetched. Install there what this package needs to decode events: pip "
            f"install {' '.join(server.missing)}."
        )


def look_at_python(spark: Any, url: str) -> ServerPython:
    """Run a function on the server that describes its Python.

    :raises ConfigurationError: the server's Python has another minor version than this one.
    """
    from pyspark.errors import PySparkException

    package, needed = packaging.PACKAGE, NEEDED

    def look(batches: Any) -> Any:  # pickled by value, because it is a local function
        import importlib
        import importlib.util
        import sys

        import pyarrow as pa

        try:
            modules = str(importlib.import_module(f"{package}.submit.packaging").modules()[0])
        except Exception:  # noqa: BLE001 - as if the package was not there
            modules = ""
        missing = [one for one in needed if importlib.util.find_spec(one) is None]
        version = "{}.{}".format(*sys.version_info)
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"version": [version], "modules": [modules], "missing": [missing]}
            )

    kind = "version string, modules string, missing array<string>"
    try:
        (found,) = spark.range(0, 1, 1, 1).mapInArrow(look, kind).collect()
    except PySparkException as error:
        if (differ := _PYTHONS.search(str(error))) is not None:
            raise ConfigurationError(_pythons_differ(url, differ["said"])) from None
        raise
    return ServerPython(
        version=found["version"], modules=found["modules"], missing=tuple(found["missing"])
    )


def settle(spark: Any, conf: Mapping[Any, Any]) -> None:
    """Set a user's Spark settings in the session.

    :raises ConfigurationError: some belong to the server; the message names them, not their values.
    """
    from pyspark.errors import PySparkException

    refused = []
    for key, value in conf.items():
        try:
            spark.conf.set(str(key), str(value))
        except PySparkException as error:
            if _FIXED.search(str(error)) is None:
                raise ConfigurationError(
                    f"Spark refuses the value of {key} in conf: {first_line(error)}"
                ) from None
            refused.append(str(key))
    if refused:
        raise ConfigurationError(fixed_settings(refused))


def fixed_settings(names: Sequence[str]) -> str:
    """Error message for settings of `conf` that a session cannot change."""
    return (
        f"conf has {', '.join(names)}, which a Spark Connect server takes at its own start only. "
        "Nothing was fetched. Give them to the server, or use a Spark connection of type spark, "
        "which runs spark-submit."
    )


def is_spark_error(error: BaseException) -> bool:
    """Return whether Spark reports the error, over the connection."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException)


def is_lost(error: BaseException) -> bool:
    """Return whether the session is gone, so that a new one may do the same work."""
    return _LOST.search(str(error)) is not None


def is_cancelled(error: BaseException) -> bool:
    """Return whether a statement was interrupted."""
    return _CANCELLED.search(str(error)) is not None


def first_line(error: BaseException) -> str:
    """First line of an error, without the server's stack trace."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def shown_address(url: str) -> str:
    """Address without parameters: these hold the token."""
    return url.partition("/;")[0].rstrip("/")


def minor(version: str) -> str:
    """Minor version of a version: `4.1` of `4.1.1`."""
    return ".".join(version.split(".")[:2])


def _pythons_differ(url: str, said: str) -> str:
    return (
        f"The Spark Connect server at {url} runs another minor version of Python than this worker "
        f"({said}). Nothing was fetched. Set spark.pyspark.python and PYSPARK_PYTHON of the server "
        f"to a Python {sys.version_info.major}.{sys.version_info.minor}, or use a Spark connection "
        "of type spark, which runs spark-submit."
    )
