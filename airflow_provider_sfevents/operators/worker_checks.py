"""Checks of the machine that runs tasks: versions, executor, staging area, Spark.

Spark is looked at step by step, by the functions that a task calls before its fetch, so that each
step has a line. The last step runs the job that reads a file of the staging area
(`staging_probe`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from airflow_provider_sfevents.doctor.findings import (
    failed,
    failed_by,
    failures,
    not_checked,
    ok,
    split_message,
    warning,
)
from airflow_provider_sfevents.doctor.version_checks import version_finding
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.hooks.executors import names_of, require_shared_default
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.spark_jobs import SPARK_CONNECT
from airflow_provider_sfevents.operators.staging_probe import read_by_spark, refusal
from airflow_provider_sfevents.spark.stores.storage_jars import no_store
from airflow_provider_sfevents.staging.storage import durable_files, file_modes
from airflow_provider_sfevents.staging.storage.staging_location import (
    ensure_spark_can_read,
    usable,
)
from airflow_provider_sfevents.submit import preflight
from airflow_provider_sfevents.submit.connect_session import first_line
from airflow_provider_sfevents.submit.deploy_modes import CLUSTER, JARS_MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.submit.deploy_modes import Way

EXECUTOR, STAGING = "executor", "staging"
SPARK_CONNECTION, SPARK_SUBMIT, JAVA = "Spark connection", "spark-submit", "Java"
SPARK_SEES, MASTER = "staging seen by Spark", "Spark master"
JARS, SPARK, SPARK_READS = "jars", "Spark", "staging read by Spark"

_NO_SPARK = "Give a Spark connection: --spark-conn-id, or `spark_conn_id` of the operator."
_IN_LOG = (
    "The log has Spark's own lines (of the command: with --verbose); docs/how-to/clusters.md has "
    "the messages of clusters."
)


def worker_findings(task: Any, context: Context, stopping: Stopping) -> list[Finding]:
    """Check this machine, and return a line for each check.

    :param task: a `SubmitsToSpark` with `staging`, `staging_shared` and `spark_conn_id`.
    """
    here = [
        version_finding(),
        executor_finding(task.staging, task.executor),
        staging_finding(task.staging),
    ]
    if not task.spark_conn_id:
        return [*here, not_checked(SPARK, "No Spark connection was given.", _NO_SPARK)]
    if any(one.checked == STAGING for one in failures(here)):
        return [*here, not_checked(SPARK, f"`{STAGING}` has failed.")]
    return [*here, *spark_findings(task, context, stopping)]


def executor_finding(staging: str | None, executor: str | None) -> Finding:
    """Return the line of the executors: whether the staging area is one for all their machines."""
    names = ", ".join(names_of(executor))
    if staging:
        return ok(EXECUTOR, f"{names}, with a staging area that was chosen: {staging}.")
    try:
        require_shared_default(executor)
    except SfEventsError as error:
        return failed_by(EXECUTOR, error)
    return ok(EXECUTOR, f"{names} may use the default staging folder.")


def staging_finding(staging: str | None) -> Finding:
    """Return the line of the staging area: every operation that a task needs is tried."""
    try:
        root = staging_root(staging)
        exclusive = usable(root)
        shown = durable_files.url(root)
        wider = (
            file_modes.wider(durable_files.local_path(root))
            if durable_files.is_local(root)
            else None
        )
    except SfEventsError as error:
        return failed_by(STAGING, error)
    if not exclusive:
        return warning(
            STAGING,
            f"{shown} lets two tasks create the same file at once.",
            "Set max_active_runs=1 on every DAG that fetches.",
        )
    if wider:
        return warning(
            STAGING,
            f"Other users can open {wider}, although {file_modes.OPTION} = "
            f"{file_modes.in_use().name}.",
            "Close the folder, or change the setting.",
        )
    return ok(STAGING, f"{shown} can be written, read, listed and emptied.")


def spark_findings(task: Any, context: Context, stopping: Stopping) -> list[Finding]:
    """Check Spark by the task's connection, up to a job that reads the staging area."""
    conn_id = str(task._conn_id)  # noqa: SLF001 - as the base class reads it
    try:
        kind = spark_submission.connection_type(conn_id)
    except SfEventsError as error:
        return [failed_by(SPARK_CONNECTION, error)]
    if kind == SPARK_CONNECT:
        return [_connect_finding(task, stopping)]
    return _submit_findings(task, context, stopping)


def _connect_finding(task: Any, stopping: Stopping) -> Finding:
    from airflow_provider_sfevents.operators import spark_connect  # few tasks need it

    try:
        with spark_connect.connected(task, stopping, tables=(), seconds=None):
            pass
    except SfEventsError as error:
        return failed_by(SPARK, error)
    except Exception as error:  # noqa: BLE001 - those of PySpark and gRPC; a doctor goes on
        return failed(
            SPARK, f"The Spark Connect server refuses: {first_line(error)[:300]}", _IN_LOG
        )
    return ok(
        SPARK,
        "The Spark Connect server takes a session, has the right versions and packages, and reads "
        "the staging area.",
    )


def _submit_findings(task: Any, context: Context, stopping: Stopping) -> list[Finding]:
    conn_id = str(task._conn_id)  # noqa: SLF001 - as the base class reads it
    try:
        hook, way = spark_submission.way_of(task)
        way.check()
        spark_submission.check_command(hook, conn_id)
    except SfEventsError as error:
        return [failed_by(SPARK_CONNECTION, error)]
    binary = spark_submission.spark_binary_of(hook)
    environ = spark_submission.environment_of(way)
    mode = f", deploy mode {way.deploy_mode}" if way.deploy_mode else ""
    found = step_findings(
        (SPARK_CONNECTION, lambda: f"{conn_id!r} leads to {way.master}{mode}."),
        (SPARK_SEES, lambda: _seen(task, way)),
        (SPARK_SUBMIT, lambda: f"{spark_submission.launcher_of(binary, environ).binary} is used."),
        (JAVA, lambda: _java(way, environ)),
        (MASTER, lambda: _master(way)),
    )
    if failures(found):
        return [*found, not_checked(SPARK, "A check of Spark before this one has failed.")]
    return [*found, *_job_findings(task, way, binary, context, stopping)]


def step_findings(*steps: tuple[str, Callable[[], str]]) -> list[Finding]:
    """Return a line for each step, also after a failed one: they do not depend on each other.

    :param steps: name of each, and a function that returns what it saw or raises an error.
    """
    found = []
    for checked, look in steps:
        try:
            found.append(ok(checked, look()))
        except SfEventsError as error:
            found.append(failed_by(checked, error))
    return found


def _seen(task: Any, way: Way) -> str:
    root = durable_files.url(staging_root(task.staging))
    ensure_spark_can_read(root, way.master, shared=task.staging_shared)
    return f"{root} is for a Spark at {way.master}, too."


def _java(way: Way, environ: dict[str, str]) -> str:
    needed = preflight.check_java(way.deploy_mode, environ)
    home = needed.get("JAVA_HOME") or environ.get("JAVA_HOME") or "the one on PATH"
    return f"Spark starts on the Java of {home}."


def _master(way: Way) -> str:
    preflight.check_master_answers(way.master)
    asked = "takes connections" if way.is_standalone else "is not asked before a job"
    return f"{way.master} {asked}."


def _job_findings(
    task: Any, way: Way, binary: str, context: Context, stopping: Stopping
) -> list[Finding]:
    """Run the job that reads a file of the staging area."""
    if way.is_standalone and way.deploy_mode == CLUSTER:
        why = "A standalone cluster runs no Python drivers in cluster mode."
        return [not_checked(SPARK, why)]
    try:
        submission = spark_submission.plan_submission(
            way, binary, task.staging, shared=task.staging_shared
        )
        reason = read_by_spark(task, submission, task.staging, context, stopping)
    except SfEventsError as error:
        return failed_job(str(error)) if no_store(str(error)) else [failed_by(SPARK, error)]
    except (AirflowException, OSError, ValueError) as error:
        return failed_job(str(error))
    return read_findings(reason, str(staging_root(task.staging)), way.master)


def failed_job(said: str) -> list[Finding]:
    """Return the lines of a Spark job that failed.

    :param said: Airflow's message, with the last lines of Spark.
    """
    jars = said if said.startswith(JARS_MISSING) else no_store(said)
    if jars:
        seen, remedy = split_message(jars)
        return [failed(JARS, seen, remedy), not_checked(SPARK, f"`{JARS}` has failed.")]
    first = next(iter(said.splitlines()), "")[:300]
    return [failed(SPARK, f"The Spark job failed: {first.rstrip('.')}.", _IN_LOG)]


def read_findings(reason: str, path: str, master: str) -> list[Finding]:
    """Return the lines of a Spark job that has answered.

    :param reason: the reason why Spark cannot read the staging area; empty if it can.
    """
    if jars := no_store(reason):
        seen, remedy = split_message(jars)
        return [failed(JARS, seen, remedy), not_checked(SPARK_READS, f"`{JARS}` has failed.")]
    found = [
        ok(JARS, "Spark has found the jars that it was given."),
        ok(SPARK, f"Spark at {master} ran a job."),
    ]
    if reason:
        seen, remedy = split_message(refusal(reason, path, master))
        return [*found, failed(SPARK_READS, seen, remedy)]
    return [*found, ok(SPARK_READS, f"Spark at {master} reads {path}.")]
