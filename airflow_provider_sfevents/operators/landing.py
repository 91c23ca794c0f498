"""Between a staged batch and `spark-submit`: checked before anything is spent, aimed at the batch when it is there."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.places import staging_root
from airflow_provider_sfevents.spark import preflight
from airflow_provider_sfevents.spark.decoders.choice import LIMITS_JAVA_OPTIONS
from airflow_provider_sfevents.spark.ordering import check_order
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.staging.places import ensure_spark_can_read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

BATCH_KEY = "sfevents_batch_id"
"""In the task's state store: the batch that the Spark job kept for resuming was submitted for."""

QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
"""Else every task log holds some hundred lines of Spark's own, each logged again by Airflow."""

LIMITS = {
    f"spark.{process}.defaultJavaOptions": LIMITS_JAVA_OPTIONS for process in ("driver", "executor")
}
"""So that Spark's own decoder can be used where its jar is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Where and how `spark-submit` will run.

    :param master: Spark's master URL.
    :param deploy_mode: `client`, `cluster`, or None for Spark's default.
    :param binary: what to start.
    :param env: what its environment needs on top of the worker's.
    """

    master: str
    deploy_mode: str | None
    binary: str
    env: Mapping[str, str]

    def conf(self, given: Mapping[Any, Any], events: int | None) -> dict[Any, Any]:
        """Settings for a quiet log and a quick start, under what the user has set.

        No quiet in cluster mode, where Airflow's hook reads the driver's id from Spark's lines.

        :param events: that the job will land; None for a user's own job, of which nothing is known.
        """
        limits = {} if events is None else LIMITS
        if self.deploy_mode == "cluster":
            return {**limits, **given}
        quick = {} if events is None else preflight.quick_start(self.master, events, given)
        return {**QUIET, **limits, **quick, **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a task wants of a landing, as its author wrote it; `spark.landing.Order` says what each means.

    :param table: None with a job of the user's own.
    """

    table: str | None
    table_format: str
    partition_by: str
    landing_folder: str | None
    max_quarantined: int | None
    keep_payload: bool
    decimals: Mapping[str, str] | None
    on_type_change: str
    decoder: str

    def check(self, application: str) -> None:
        """:raises ConfigurationError: for arguments that cannot work, when the DAG is parsed."""
        if not self.table and not application:
            raise ConfigurationError(
                "table is missing: give the root URL of the tables (for Delta and Iceberg, also a namespace of a catalog), or an "
                "`application` of your own."
            )
        if self.max_quarantined is not None and self.max_quarantined < 0:
            raise ConfigurationError(
                f"max_quarantined={self.max_quarantined} is below 0; 0 lands only batches that decode whole."
            )
        check_order(
            # What a template makes of it the job checks.
            "/lake/tables" if not self.table or "{{" in self.table else self.table,
            self.table_format,
            self.partition_by,
            self.decimals or {},
            self.on_type_change,
            self.decoder,
        )

    def arguments(self) -> list[str]:
        """For the job of this package; those alone that say something else than its defaults."""
        said = ["--table", str(self.table), "--format", self.table_format]
        if self.max_quarantined is not None:
            said += ["--max-quarantined", str(self.max_quarantined)]
        if self.keep_payload:
            said += ["--keep-payload"]
        for option, value, usual in (
            ("--partition-by", self.partition_by, naming.EVENT_DATE),
            ("--landing-folder", self.landing_folder or "", ""),
            ("--decimals", json.dumps(dict(self.decimals or {})), "{}"),
            ("--on-type-change", self.on_type_change, "new_column"),
            ("--decoder", self.decoder, "auto"),
        ):
            said += [] if value == usual else [option, value]
        return said


def require_connection(conn_id: str) -> None:
    """:raises ConfigurationError: no such connection; SparkSubmitHook would go to YARN, with one line in the log."""
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"Spark connection {conn_id!r} is not defined. Create it (type `spark`; host `local[2]`, `yarn` or `spark://host:7077`), "
            "or name another one by `spark_conn_id`."
        ) from error


def plan_submission(
    connection: Mapping[str, Any],
    env_vars: Mapping[str, str] | None,
    staging: str | None,
    *,
    shared: bool,
) -> Submission:
    """Make sure that Spark could run and read the staging area, before an event is asked for.

    :param connection: what SparkSubmitHook made of the Spark connection: `master`, `deploy_mode`, `spark_binary`.
    :param env_vars: what the user wants in spark-submit's environment.
    :raises ConfigurationError: mixed pyspark versions, no spark-submit, no Java, or a folder that Spark cannot see.
    """
    master, deploy_mode = connection["master"], connection["deploy_mode"]
    ensure_spark_can_read(str(staging_root(staging)), master, shared=shared)
    preflight.check_versions()
    environ = {**os.environ, **(env_vars or {})}
    asked = connection["spark_binary"]
    launcher = preflight.find_spark_submit(
        None if asked == preflight.SPARK_SUBMIT else asked, environ
    )
    java = preflight.check_java(deploy_mode, environ)
    return Submission(
        master=master,
        deploy_mode=deploy_mode,
        binary=launcher.binary,
        env={} if deploy_mode == "cluster" else _env(launcher, java, environ, master),
    )


def joined(*py_files: str | None) -> str:
    return ",".join(filter(None, py_files))


def texts(application_args: Sequence[Any] | None) -> list[str]:
    """SparkSubmitHook starts the process with them as they are, so each has to be text."""
    return [str(argument) for argument in application_args or ()]


def forget_other_jobs(context: Context, job_key: str, batch_id: str, *, again: bool) -> None:
    """A Spark job kept for resuming (cluster modes) counts only for the batch it was submitted for, and for one landing of it.

    Without this, a task that is cleared would take an earlier batch's finished job for this one's, or would not land its own batch
    again (`ResumableJobMixin`, Airflow 3.3, keeps the job's id over a clear).

    :param again: the batch has landed before, by another job.
    """
    state = context.get("task_state_store")
    wanted = f"{batch_id}, landed again by try {context['ti'].try_number}" if again else batch_id
    if state is None or state.get(BATCH_KEY) == wanted:
        return
    state.delete(job_key)
    state.set(BATCH_KEY, wanted)


def _env(
    launcher: preflight.Launcher, java: Mapping[str, str], environ: Mapping[str, str], master: str
) -> dict[str, str]:
    """The worker's Python runs Spark's driver; its executors too only when they are on this machine."""
    env = {**launcher.env, **java, **preflight.locale(environ)}
    if not master.startswith("local") and env.pop("PYSPARK_PYTHON", ""):
        env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return env
