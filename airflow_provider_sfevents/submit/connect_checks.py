"""Checks of a Spark Connect server before the fetch: versions, Python, settings.

They share a limited time, and each failure is one line with thing, value and remedy. The server's
Python is compared without importing this package there: Spark runs a session's functions in one
Python worker after the other, and a worker that has imported other modules keeps them.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import packaging
from airflow_provider_sfevents.submit.connect_session import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_sfevents.submit.connect_session import ConnectSession

T = TypeVar("T")

NEEDED = ("fastavro", "numpy", "pyarrow", "pandas")
"""Packages that the server's Python needs to decode events."""

ISOLATION = "spark.sql.artifact.isolation.enabled"

_FIXED = re.compile(r"CANNOT_MODIFY_(?:STATIC_)?CONFIG")
_PYTHONS = re.compile(r"PYTHON_VERSION_MISMATCH\]? ?(?P<said>[^\n]*)")
_HIDDEN = "spark.sql.redaction.options.regex"
_HADOOP = "spark.hadoop."
"""Prefix of settings that Spark reads at its start; a session takes them without an effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPython:
    """The Python in which the server runs functions.

    :param version: minor version, such as `3.11`.
    :param has_package: this package is installed there, with the modules of this worker.
    :param missing: modules asked for that it does not have.
    :param path: path of its interpreter.
    :param is_shared: all sessions of the server share it, with the modules that any of them sends.
    """

    version: str
    has_package: bool
    missing: tuple[str, ...]
    path: str = "python3"
    is_shared: bool = False


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
                f"{self._seconds:g} s, and has not answered this: {what}. A "
                "server that has just started, or that has many tasks, may need longer: [sfevents] "
                "spark_connect_check_seconds."
            ) from None


def check_spark_version(client: str, server: str, url: str) -> None:
    """Compare the minor versions of Spark.

    :raises ConfigurationError: client and server differ.
    """
    if minor(client) != minor(server):
        raise ConfigurationError(
            f"The Spark Connect server at {url} runs Spark {server}, and this worker has pyspark "
            f"{client}. Both need the same minor version: run the server with Spark "
            f"{minor(client)}, or use a Spark connection of type spark, which runs spark-submit."
        )


def check_python(worker: str, server: ServerPython, url: str) -> None:
    """Check that the server's Python can run this package's functions.

    :param worker: minor version of the worker's Python.
    :raises ConfigurationError: it cannot.
    """
    if server.version != worker:
        raise ConfigurationError(_pythons_differ(url, f"{server.version} there, {worker} here"))
    if missing := [name for name in NEEDED if name in server.missing]:
        raise ConfigurationError(
            f"The Python of the Spark Connect server at {url} has no {', '.join(missing)}. Install "
            f"there what this package needs to decode events: pip install {' '.join(missing)}."
        )
    if server.is_shared and not server.has_package:
        raise ConfigurationError(
            f"The Python of the Spark Connect server at {url} ({server.path}) does not have this "
            f"release of {packaging.PACKAGE}, and it is one for all sessions, which would all get "
            "the modules that this task sends. Install the worker's release there and restart the "
            f"server, or start the server with {ISOLATION}=true."
        )


def look_at_python(spark: Any, url: str, modules: Sequence[str] = NEEDED) -> ServerPython:
    """Run a function on the server that describes its Python.

    :param modules: to be looked for.
    :raises ConfigurationError: the server's Python has another minor version than this one.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    package, needed, names = packaging.PACKAGE, tuple(modules), packaging.shipped_modules()

    # Both are pickled by value, because they are local functions.
    def digest(folder: str) -> str:
        import hashlib
        import os

        found = hashlib.sha256()
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - on any server's Python
            if not os.path.isfile(path):  # noqa: PTH113 - as above
                return ""
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                found.update(hashlib.sha256(file.read()).digest())
        return found.hexdigest()

    def look(_: object) -> str:
        import json
        import os
        import sys
        from importlib.util import find_spec

        installed = find_spec(package)  # imports nothing, as the name has no dot
        folders = list(installed.submodule_search_locations or ()) if installed else []
        missing = [one for one in needed if find_spec(one) is None]
        version = "{}.{}".format(*sys.version_info)
        theirs = digest(folders[0]) if folders else ""
        # Spark's name for the files of the session; `default` where sessions are not isolated.
        is_shared = os.environ.get("SPARK_JOB_ARTIFACT_UUID") == "default"
        return json.dumps([version, theirs, missing, sys.executable, is_shared])

    try:
        described = F.udf(look, "string", useArrow=False)("id")  # pyarrow may be missing there
        (found,) = spark.range(0, 1, 1, 1).select(described).collect()
    except PySparkException as error:
        if (differ := _PYTHONS.search(str(error))) is not None:
            raise ConfigurationError(_pythons_differ(url, differ["said"])) from None
        raise
    version, theirs, missing, path, is_shared = json.loads(found[0])
    return ServerPython(
        version=version,
        has_package=theirs == digest(str(packaging.root())),
        missing=tuple(missing),
        path=path,
        is_shared=is_shared,
    )


def settle(spark: Any, conf: Mapping[Any, Any]) -> None:
    """Set a user's Spark settings in the session; Spark's pages then show no value of them.

    :raises ConfigurationError: some belong to the server; the message names them, not their values.
    """
    from pyspark.errors import PySparkException

    if not conf:
        return
    hidden = str(spark.conf.get(_HIDDEN, ""))
    spark.conf.set(_HIDDEN, "|".join([*filter(None, [hidden]), *map(re.escape, map(str, conf))]))
    refused = [str(key) for key in conf if str(key).startswith(_HADOOP)]
    for key, value in conf.items():
        try:
            spark.conf.set(str(key), str(value))
        except PySparkException as error:
            if _FIXED.search(str(error)) is None:
                said = first_line(error).replace(f"'{value}'", "given")
                raise ConfigurationError(
                    f"Spark refuses the value of {key} in conf: {said}"
                ) from None
            refused.append(str(key))
    if refused:
        raise ConfigurationError(
            f"conf has {', '.join(refused)}, which a Spark Connect server takes at its own start "
            "only. Give them to the server, or use a Spark connection of type spark, which runs "
            "spark-submit."
        )


def minor(version: str) -> str:
    """Minor version of a version: `4.1` of `4.1.1`."""
    return ".".join(version.split(".")[:2])


def _pythons_differ(url: str, said: str) -> str:
    return (
        f"The Spark Connect server at {url} runs another minor version of Python than this worker "
        f"({said}). Set spark.pyspark.python and PYSPARK_PYTHON of the server "
        f"to a Python {sys.version_info.major}.{sys.version_info.minor}, or use a Spark connection "
        "of type spark, which runs spark-submit."
    )
