"""Run this package's Spark jobs as statements in a session of a Spark Connect server.

1. Everything is checked before the fetch (`submit/connect_session.py`), in one session that stays
   open for the jobs.
2. If the session is lost later, a new one does the whole job again, as long as there is time. A
   job may be run again at any moment, because landing replaces the rows of its batch.
3. A request to stop interrupts the running statement, and no further one begins. A statement that
   the server goes on with is as a second attempt at the same batch.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.metadata import version
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import ObjectStoragePath
from airflow.sdk.configuration import conf

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    NotLandedError,
    SfEventsError,
    StoppedError,
    TransportError,
)
from airflow_provider_sfevents.hooks.executors import SECTION
from airflow_provider_sfevents.hooks.staging_access import open_staging, staging_root
from airflow_provider_sfevents.spark import failure
from airflow_provider_sfevents.spark.avro import decoder_needs
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.probe import unreadable
from airflow_provider_sfevents.spark.side_by_side import beside
from airflow_provider_sfevents.spark.tables.opening import open_format
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files
from airflow_provider_sfevents.staging.storage.staging_location import spark_url
from airflow_provider_sfevents.submit import connect_checks, connect_session, packaging
from airflow_provider_sfevents.submit.connect_checks import Checks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.operators.job_options import SparkWork
    from airflow_provider_sfevents.submit.connect_session import ConnectSession

log = logging.getLogger(__name__)

CHECK_SECONDS = "spark_connect_check_seconds"
"""Name of the setting in `[sfevents]`: time for all checks of a server, in seconds."""

UI_LINK = "spark_ui"
"""Extra of the connection: link of the Spark UI, for a server whose settings do not tell it."""

_ASKED_FOR = tuple(dict.fromkeys((*connect_checks.NEEDED, *decoder_needs.ASKED_FOR)))

RUN_AGAIN_SECONDS = 600.0
PAUSE_SECONDS = 2.0

_SUBMIT_ONLY = {
    "application": "application",
    "application_args": "application_args",
    "archives": "_archives",
    "deploy_mode": "_deploy_mode",
    "driver_class_path": "driver_class_path",
    "driver_memory": "_driver_memory",
    "env_vars": "env_vars",
    "exclude_packages": "exclude_packages",
    "executor_cores": "_executor_cores",
    "executor_memory": "_executor_memory",
    "files": "files",
    "jars": "jars",
    "java_class": "_java_class",
    "keytab": "keytab",
    "num_executors": "_num_executors",
    "packages": "packages",
    "post_submit_commands": "post_submit_commands",
    "principal": "principal",
    "properties_file": "properties_file",
    "proxy_user": "proxy_user",
    "py_files": "py_files",
    "repositories": "_repositories",
    "spark_binary": "_spark_binary",
    "total_executor_cores": "_total_executor_cores",
    "use_krb5ccache": "_use_krb5ccache",
    "yarn_queue": "_yarn_queue",
    "yarn_track_via_rm_api": "_yarn_track_via_rm_api",
}
"""Arguments of `SparkSubmitOperator` for a process or cluster of the job's own, by attribute."""


def refused_arguments(task: Any) -> list[str]:
    """Names of the given arguments that only `spark-submit` has."""
    return [name for name, attribute in _SUBMIT_ONLY.items() if getattr(task, attribute, None)]


def check_arguments(task: Any) -> None:
    """Check that no argument of a task is for `spark-submit` only.

    :raises ConfigurationError: one is; the message names all of them.
    """
    if refused := refused_arguments(task):
        raise ConfigurationError(
            f"{', '.join(refused)}: only spark-submit takes these, and the Spark connection "
            f"{task._conn_id!r} is one of type spark_connect. Nothing was fetched. Leave them out "  # noqa: SLF001 - as the base class reads it
            "(the server has its own jars, memory and executors), or name a connection of type "
            "spark by spark_conn_id."
        )


def check_seconds() -> float:
    """Time for the checks of a server, from Airflow's configuration.

    :raises ConfigurationError: it is no positive number.
    """
    given = conf.get(SECTION, CHECK_SECONDS, fallback="10")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < inf:
        raise ConfigurationError(
            f"[{SECTION}] {CHECK_SECONDS} = {given} is no number of seconds. Give one, such as 10."
        )
    return seconds


def server_url(conn_id: str) -> str:
    """Address of a connection's server, with its parameters, among them the token.

    :raises ConfigurationError: the connection cannot be used.
    """
    try:
        return str(SparkConnectHook(conn_id).get_connection_url())
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"Spark connection {conn_id!r} cannot be used: {error}. Its host is sc://<host>, its "
            "port usually 15002."
        ) from error


def _ui_link(conn_id: str) -> str:
    return str(SparkConnectHook.get_connection(conn_id).extra_dejson.get(UI_LINK, ""))


@contextmanager
def connected(
    task: Any,
    stopping: Stopping,
    *,
    tables: Sequence[str | None],
    seconds: float | None,
) -> Iterator[ConnectJobs]:
    """Open a session of the task's server, and check it; parameters as of `open_spark`."""
    check_arguments(task)
    url = server_url(str(task._conn_id))  # noqa: SLF001 - as above
    jobs = ConnectJobs(task, url, stopping, RUN_AGAIN_SECONDS if seconds is None else seconds)
    with jobs.opened():
        jobs.check([one for one in tables if one])
        yield jobs


class ConnectJobs:
    """Spark jobs of a task over Spark Connect.

    :param run_again_seconds: time in which a job is run again after its session was lost.
    """

    def __init__(self, task: Any, url: str, stopping: Stopping, run_again_seconds: float) -> None:
        self._task = task
        self._url = url
        self._stopping = stopping
        self._stack = ExitStack()
        self._session: ConnectSession | None = None
        self._ui_link = _ui_link(str(task._conn_id))  # noqa: SLF001 - as the base class reads it
        self._seconds = check_seconds()
        self._run_again_seconds = run_again_seconds

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the session; it is released after the block."""
        try:
            self._open()
            yield
        finally:
            self._task.__dict__["_connect_session"] = None
            self._stack.close()

    def check(self, tables: Sequence[str]) -> None:
        """Check that the server can run the task's jobs; each failure is one line.

        :raises ConfigurationError: it cannot.
        :raises TransportError: it does not answer in time.
        """
        session = self._now()
        checks = Checks(session, self._seconds)
        spark, task = session.spark, self._task
        began = monotonic()
        # Opening the staging area takes as long as the server's Python needs for its answer.
        with beside(lambda: self._prepare(session, checks)):
            probe = self._probe()
        checks.run("it reads a file of the staging area", lambda: self._read(spark, probe))
        link = self._ui_link or checks.run("its Spark UI", session.ui_link)
        for table in tables:
            checks.run(
                f"it opens tables of format {task.table_format}",
                lambda one=table: open_format(  # type: ignore[misc]
                    spark, Files(spark, self._store), one, task.table_format
                ),
            )
        log.info(
            "Spark Connect at %s: session %s, checked in %.1f s. Spark UI: %s.",
            *(session.url, session.session_id, monotonic() - began),
            link or f"not told by the server (extra {UI_LINK} of the connection)",
        )

    def run(self, work: SparkWork) -> None:
        """Run a job; once more in a new session if this one is lost.

        :raises StoppedError: the task was ended.
        :raises NotLandedError: Spark reports an error that a new session would report, too.
        """
        module = import_module(f"airflow_provider_sfevents.spark.{work.job}")
        _, subject, act = module.job_of(list(work.arguments))
        until = monotonic() + self._run_again_seconds
        while True:
            self._stopping.check("Spark was not started, and staged events stay staged")
            try:
                if self._session is None:
                    self._open()
                    self._prepare(self._now(), Checks(self._now(), self._seconds))
                session = self._now()
                steps.reached(steps.LANDING_BEGAN, subject)
                act(session.spark, self._store)
            except Exception as error:  # noqa: BLE001 - raised as another, or the job runs again
                self._after(error, until)
            else:
                log.info(
                    "Spark Connect session %s: %s in %s; last operation %s.",
                    *(session.session_id, counted(session.statements, "statement")),
                    *(counted(session.calls, "call"), session.operation),
                )
                return

    def _after(self, error: Exception, until: float) -> None:
        """Raise a job's error as one of this package, or return to run the job again."""
        if self._session is not None:
            log.info(
                "Spark Connect session %s ended at operation %s.",
                *(self._session.session_id, self._session.operation),
            )
        if self._stopping.requested:
            raise StoppedError(
                "The task was ended while Spark ran, and its statements with it. The next try or "
                "run does the work of Spark again, without a new delivery."
            ) from None
        said = connect_session.first_line(error)
        if isinstance(error, TransportError) or failure.is_lost(error):
            self._lose()
            if monotonic() < until:
                log.warning(
                    "The Spark Connect session was lost (%s). The job runs again in a new one.",
                    said,
                )
                self._stopping.wait(PAUSE_SECONDS)
                return
            raise TransportError(
                f"The Spark Connect session was lost, and no new one could do the job in time "
                f"({said}). The batch stays staged. Run the task again when the server is up; "
                "that costs no delivery."
            ) from None
        if isinstance(error, SfEventsError):
            raise error
        known = failure.one_line(error)
        if not known:
            log.error("The Spark job failed:", exc_info=error)
        raise NotLandedError(f"The Spark job failed: {known or said}") from None

    def _open(self) -> None:
        opened = connect_session.open_session(
            self._url, seconds=self._seconds, before_statement=self._before_statement
        )
        self._session = self._stack.enter_context(opened)
        self._task.__dict__["_connect_session"] = self._session

    def _lose(self) -> None:
        """Forget the session, if there is one."""
        if self._session is not None:
            self._session.forget()
        self._session = None
        self._stack.close()

    def _before_statement(self) -> None:
        self._stopping.check("no further statement of Spark begins")

    def _now(self) -> ConnectSession:
        assert self._session is not None  # noqa: S101 - it is open
        return self._session

    def _prepare(self, session: ConnectSession, checks: Checks) -> None:
        """Check the versions, set the user's settings, and send this package's modules."""
        spark = session.spark
        server_spark = checks.run("its version", lambda: str(spark.version))
        connect_checks.check_spark_version(version("pyspark"), server_spark, session.url)
        settings = dict(self._task.conf or {})
        checks.run("it takes the settings of conf", lambda: connect_checks.settle(spark, settings))
        python = checks.run(
            "its Python runs a function",
            lambda: connect_checks.look_at_python(spark, session.url, _ASKED_FOR),
        )
        worker = f"{sys.version_info.major}.{sys.version_info.minor}"
        connect_checks.check_python(worker, python, session.url)
        if not python.has_package:
            checks.run("it takes this package's modules", session.send_modules)
        lacking = [one for one in python.missing if one != packaging.PACKAGE]
        decoder_needs.remember_python(spark, python.path, lacking)

    def _probe(self) -> ObjectStoragePath:
        """A file of the staging area, staged as events are."""
        task = self._task
        root = open_staging(task.staging, task.executor).root
        probe = root / layout.PROBES / "spark-connect.txt"
        if durable_files.read(probe) is None:
            durable_files.replace(probe, b"Spark reads this file before the first events.\n")
        return probe

    def _read(self, spark: Any, probe: ObjectStoragePath) -> None:
        url = spark_url(probe)
        if reason := unreadable(spark, url):
            raise ConfigurationError(
                f"The Spark Connect server at {self._now().url} cannot read {url} ({reason}). "
                "Nothing was fetched. Give a staging area that worker and server both reach, such "
                "as an object store; for a folder see [sfevents] staging_mode."
            )

    def _store(self, url: str) -> Any:
        """File system of a URL that is not local, with the credentials of the staging area."""
        scheme, _, rest = url.partition("://")
        root = staging_root(self._task.staging)
        scheme = "s3" if scheme in ("s3a", "s3n") else scheme
        if root.protocol == scheme:
            return root.fs
        return ObjectStoragePath(f"{scheme}://{rest}").fs
