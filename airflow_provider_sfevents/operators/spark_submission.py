"""Start `spark-submit` for a staged batch; its settings are checked before the fetch."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, StoppedError
from airflow_provider_sfevents.hooks.airflow_errors import found_connection
from airflow_provider_sfevents.hooks.staging_access import put_job, staging_root
from airflow_provider_sfevents.hooks.stoppable import StoppableTask
from airflow_provider_sfevents.spark.stores.storage_jars import no_jar, no_store
from airflow_provider_sfevents.staging.storage.durable_files import is_local
from airflow_provider_sfevents.staging.storage.staging_location import (
    ensure_spark_can_read,
    spark_url,
)
from airflow_provider_sfevents.submit import deploy_modes, preflight
from airflow_provider_sfevents.submit.store_jars import missing_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_sfevents.hooks.staging_access import Job
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.operators.job_options import SparkWork
    from airflow_provider_sfevents.submit.connect_session import ConnectSession

log = logging.getLogger(__name__)

DRIVERS_PYTHON = "PYSPARK_DRIVER_PYTHON"

BATCH_KEY = "sfevents_batch_id"
"""Key in the task's state store: the batch of the Spark job that is kept for resuming."""

QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
"""Settings for a short log: Spark writes a hundred lines, and Airflow logs each one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Settings with which `spark-submit` runs.

    :param master: Spark's master URL.
    :param deploy_mode: `client`, `cluster`, or None for Spark's default.
    :param binary: program to start.
    :param env: variables that spark-submit needs in addition to the worker's environment. Never an
        operator's `env_vars`: on YARN and Kubernetes those are for processes on other machines.
    :param in_file: names of the settings that its file of defaults has; arguments override them.
    """

    master: str
    deploy_mode: str | None
    binary: str
    env: Mapping[str, str]
    in_file: Collection[str] = ()

    def conf(self, given: Mapping[Any, Any], events: int | None) -> dict[Any, Any]:
        """Return settings for a short log and a quick start; the user's settings come first.

        In cluster mode the log stays long: Airflow's hook reads the driver's id from Spark's lines.

        :param events: number of events that the job lands; None for a user's own job.
        """
        if self.deploy_mode == deploy_modes.CLUSTER:
            return dict(given)
        own = {*given, *self.in_file}
        quiet = {key: value for key, value in QUIET.items() if key not in own}
        quick = {} if events is None else preflight.quick_start(self.master, events, own)
        python = deploy_modes.drivers_python(given, self.env.get(DRIVERS_PYTHON, ""))
        return {**quiet, **quick, **python, **given}

    def job_root(self, staging: str | None) -> ObjectStoragePath:
        """Return the folder for the job's files: the staging area, or a folder of this machine.

        It is the staging area if the driver runs on another machine or the area is a folder.
        Otherwise spark-submit would fetch the files before it has loaded the jars of the object
        store; the executors get them from the driver.
        """
        root = staging_root(staging)
        return (
            root
            if self.deploy_mode == deploy_modes.CLUSTER or is_local(root)
            else staging_root(None)
        )

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Give spark-submit its environment, in this process, for the length of a block.

        :raises AirflowException: the block's error; in one sentence if Spark could not fetch its
            jars.
        :raises ConfigurationError: Spark has no jar for a kind of address.
        """
        before = {name: os.environ.get(name) for name in self.env}
        os.environ.update(self.env)
        try:
            yield
        except AirflowException as error:
            # Airflow's hook keeps the environment, with the connections, in a local variable.
            traceback.clear_frames(error.__traceback__)
            if lacking := no_store(str(error)):
                raise ConfigurationError(lacking) from None
            told = deploy_modes.unresolved_jars(str(error))
            if not told:
                raise
            raise AirflowException(told) from None
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


class SubmitsToSpark(StoppableTask):
    """Mixin for operators that are a `SparkSubmitOperator`, too."""

    _in_spark = False
    _spark_task: Any = None
    _connect_session: ConnectSession | None = None

    def run_spark(
        self, task: Any, context: Context, submission: Submission, stopping: Stopping
    ) -> None:
        """Run Spark by the settings of a task: this one, or a copy of it with another job.

        :raises StoppedError: the task was ended, before Spark was started or while it ran.
        """
        # Airflow's operator makes the hook, of settings that it adds to: OpenLineage's parent job.
        task._hook = None  # noqa: SLF001
        self._spark_task = task
        self._in_spark = True  # before the check: see `_end_process`
        try:
            stopping.check("Spark was not started, and staged events stay staged")
            with submission.environment():
                SparkSubmitOperator.execute(task, context)
        except AirflowException:
            if not stopping.requested:
                raise
            raise StoppedError(
                "The task was ended while Spark ran, and Spark with it. The next try or "
                "run does the work of Spark again, without a new delivery."
            ) from None
        finally:
            self._in_spark = False

    @override
    def _end_process(self) -> bool:
        """End Spark: the session's statements, or the process as Airflow's operator does."""
        if self._connect_session is not None:
            self._connect_session.interrupt()
        if not self._in_spark:
            return True
        hook = self._spark_task._hook  # noqa: SLF001 - as `SparkSubmitOperator.on_kill` reads it
        # A try that goes on with the driver of an earlier one has started no process.
        known = ("_submit_sp", "_driver_id", "_kubernetes_driver_pod", "_yarn_application_id")
        if has_begun := any(getattr(hook, one, None) for one in known):
            SparkSubmitOperator.on_kill(self._spark_task)
        return has_begun


class SubmittedJobs:
    """Spark jobs of a task, each by `spark-submit`.

    :param task: a `SubmitsToSpark` with `staging`.
    """

    def __init__(
        self, task: Any, submission: Submission, context: Context, stopping: Stopping
    ) -> None:
        self._task = task
        self._submission = submission
        self._context = context
        self._stopping = stopping

    def run(self, work: SparkWork) -> None:
        """Run a job as `SparkSubmitOperator` does; as `SparkJobs.run`."""
        task = self._task
        forget_other_jobs(self._context, task.external_id_key, work.key, again=work.again)
        job = put_job(self._submission.job_root(task.staging), work.job)
        aim(task, self._submission, job, work.arguments, work.events)
        task.run_spark(task, self._context, self._submission, self._stopping)
        forget_job(self._context, task.external_id_key)


def connection_type(conn_id: str) -> str:
    """Type of a Spark connection; without a connection SparkSubmitHook would use YARN.

    :raises ConfigurationError: there is no such connection.
    :raises TransportError: Airflow cannot read it just now.
    """
    remedy = (
        "Create it (type `spark`; host `local[2]`, `yarn` or `spark://host:7077`; or type "
        "`spark_connect`; host `sc://host`), or name another one by `spark_conn_id`."
    )
    return str(found_connection(conn_id, "Spark connection", remedy).conn_type)


def plan(
    task: SparkSubmitOperator,
    staging: str | None,
    *,
    shared: bool,
    tables: Sequence[str | None] = (),
) -> Submission:
    """Plan a submission by a task's own Spark connection, as `plan_submission`.

    :param tables: root URLs or namespaces that the job writes.
    :raises ConfigurationError: also if that connection does not exist, or is not one for Spark.
    """
    hook, way = way_of(task)
    submission = plan_submission(way, spark_binary_of(hook), staging, shared=shared)
    arguments = check_command(hook, str(task._conn_id))  # noqa: SLF001 - as the base class reads it
    if way.master.startswith("local"):
        addresses = [spark_url(staging_root(staging)), *filter(None, tables)]
        environ = environment_of(way)
        folder = preflight.spark_folder(launcher_of(spark_binary_of(hook), environ), environ)
        if scheme := missing_store(addresses, arguments, folder, environ):
            raise ConfigurationError(f"{no_jar(scheme)} Nothing was fetched.")
    return submission


def way_of(task: SparkSubmitOperator) -> tuple[Any, deploy_modes.Way]:
    """Return Airflow's hook of a task's Spark connection, and its way of submitting, unchecked.

    :raises ConfigurationError: the connection does not exist, or is not one for Spark.
    """
    conn_id = task._conn_id  # noqa: SLF001 - as the base class reads it; so is the next
    connection_type(str(conn_id))
    try:
        hook = task._get_hook()  # noqa: SLF001
    except NameError as error:  # a class that the hook could not import
        raise ConfigurationError(
            f"Spark connection {conn_id!r} names a Kubernetes master, and Airflow has no client "
            "for Kubernetes here: pip install apache-airflow-providers-cncf-kubernetes."
        ) from error
    except (ValueError, RuntimeError) as error:
        raise ConfigurationError(f"Spark connection {conn_id!r} cannot be used: {error}") from error
    connection = hook._connection  # noqa: SLF001
    return hook, deploy_modes.Way(
        master=connection["master"],
        deploy_mode=deploy_modes.deploy_mode(connection["deploy_mode"], task.conf or {}),
        application=task.application,
        env_vars=task.env_vars or {},
        properties_file=task.properties_file,
        durable=task.durable,
        yarn_track_via_rm_api=task._yarn_track_via_rm_api,  # noqa: SLF001
    )


def spark_binary_of(hook: Any) -> str:
    """Return the program of the operator, its connection, or Airflow's default."""
    return str(hook._connection["spark_binary"])  # noqa: SLF001


def launcher_of(spark_binary: str, environ: Mapping[str, str]) -> preflight.Launcher:
    """Choose spark-submit; Airflow's default name stands for any.

    :raises ConfigurationError: there is none.
    """
    return preflight.find_spark_submit(
        None if spark_binary == preflight.SPARK_SUBMIT else spark_binary, environ
    )


def environment_of(way: deploy_modes.Way) -> dict[str, str]:
    """Return this process's environment with the user's variables for the job."""
    return {**os.environ, **{name: str(value) for name, value in way.env_vars.items()}}


def aim(
    task: Any, submission: Submission, job: Job, arguments: Sequence[str], events: int | None
) -> None:
    """Set the job of a task: this package's job, or the user's with arguments before its own.

    :param events: number of events for the job; None for a user's own job.
    """
    task.application = task.application or job.application
    task.application_args = [*arguments, *texts(task.application_args)]
    task.py_files = joined(task.py_files, job.py_files)
    task.conf = submission.conf(task.conf or {}, events)
    task._spark_binary = submission.binary  # noqa: SLF001 - the attribute of `spark_binary`


def plan_submission(
    way: deploy_modes.Way, spark_binary: str, staging: str | None, *, shared: bool
) -> Submission:
    """Check that Spark can run and read the staging area, before an event is requested.

    :param spark_binary: of the operator, its connection, or Airflow's default.
    :raises ConfigurationError: this way of submitting does not work, mixed pyspark versions, no
        spark-submit, no Java, or a folder that Spark cannot see.
    :raises TransportError: the master does not answer.
    """
    way.check()
    for name in way.exposed():
        log.warning(
            "env_vars names %s. At %s Airflow puts env_vars on spark-submit's command line, which "
            "every user of this machine can read; docs/how-to/clusters.md shows other ways to pass "
            "secrets.",
            *(name, way.master),
        )
    ensure_spark_can_read(str(staging_root(staging)), way.master, shared=shared)
    preflight.check_versions()
    environ = environment_of(way)
    launcher = launcher_of(spark_binary, environ)
    java = preflight.check_java(way.deploy_mode, environ)
    preflight.check_master_answers(way.master)
    return Submission(
        master=way.master,
        deploy_mode=way.deploy_mode,
        binary=launcher.binary,
        env=_env(launcher, java, environ, way),
        in_file=preflight.settings_of_file(way.properties_file, launcher, environ),
    )


def check_command(hook: Any, conn_id: str) -> list[str]:
    """Let SparkSubmitHook make its arguments once, so that it refuses them before a fetch.

    :return: the arguments.
    :raises ConfigurationError: in its words.
    """
    try:
        # Private methods, but the operator and the hook's own `submit` call exactly these.
        hook._validate_yarn_track_via_rm_api_config()  # noqa: SLF001
        if hook._track_driver_via_k8s_api:  # noqa: SLF001
            hook._validate_track_driver_via_k8s_api_config()  # noqa: SLF001
        arguments: list[str] = hook._build_spark_common_args()  # noqa: SLF001
    except (AirflowException, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"Spark cannot be started by connection {conn_id!r}: {error}"
        ) from error
    return arguments


def joined(*py_files: str | None) -> str:
    return ",".join(filter(None, py_files))


def texts(application_args: Sequence[Any] | None) -> list[str]:
    """Convert arguments to text: SparkSubmitHook starts the process with them unchanged."""
    return [str(argument) for argument in application_args or ()]


def forget_other_jobs(context: Context, job_key: str, batch_id: str, *, again: bool) -> None:
    """Forget a Spark job kept for resuming (cluster modes) that belongs to another landing.

    Otherwise a cleared task would take the job of an earlier batch for its own, or would not land
    its own again (`ResumableJobMixin`, Airflow 3.3, keeps the job's id over a clear).

    :param again: the batch has landed before, by another job.
    """
    state = context.get("task_state_store")
    wanted = f"{batch_id}, landed again by try {context['ti'].try_number}" if again else batch_id
    if state is None or state.get(BATCH_KEY) == wanted:
        return
    forget_job(context, job_key)
    state.set(BATCH_KEY, wanted)


def forget_job(context: Context, job_key: str) -> None:
    """Forget the job kept for resuming: one that has ended without a receipt is to run again."""
    if (state := context.get("task_state_store")) is not None:
        state.delete(job_key)
        state.delete(SparkSubmitOperator._K8S_DRIVER_STATUS_KEY)  # noqa: SLF001


def _env(
    launcher: preflight.Launcher,
    java: Mapping[str, str],
    environ: Mapping[str, str],
    way: deploy_modes.Way,
) -> dict[str, str]:
    """Return the environment of spark-submit.

    The worker's Python runs Spark's driver if the driver runs here; it runs the executors, too,
    only if they are on this machine.
    """
    env = {**launcher.env, **java, **preflight.locale(environ)}
    if not way.master.startswith("local"):
        env.pop("PYSPARK_PYTHON", "")
        here = launcher.beside_python and way.deploy_mode != deploy_modes.CLUSTER
        if here and not environ.get(DRIVERS_PYTHON):
            env[DRIVERS_PYTHON] = sys.executable
    return env
