"""Between a staged batch and `spark-submit`: checked before anything is spent, aimed at the batch when it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.places import put_job, staging_root
from airflow_provider_sfevents.staging.places import ensure_spark_can_read, spark_url

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

TABLE_FORMATS = ("parquet",)

BATCH_KEY = "sfevents_batch_id"
"""In the task's state store: the batch that the Spark job kept for resuming was submitted for."""

QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
"""Else every task log holds some hundred lines of Spark's own, each logged again by Airflow. Not in cluster mode, where
Airflow's hook finds the driver's id in lines of level INFO."""


def check_arguments(
    table: str | None, table_format: str, max_quarantined: int | None, application: str
) -> None:
    """:raises ConfigurationError: for arguments that cannot work, when the DAG is parsed."""
    if not table and not application:
        raise ConfigurationError("table is missing: give the root URL of the tables, or an `application` of your own.")
    if table_format not in TABLE_FORMATS:
        raise ConfigurationError(f"table_format={table_format!r} is not known; give {' or '.join(TABLE_FORMATS)}.")
    if max_quarantined is not None and max_quarantined < 0:
        raise ConfigurationError(f"max_quarantined={max_quarantined} is below 0; 0 lands only batches that decode whole.")


def prepare(operator: SfEventsToSparkOperator) -> None:
    """Make sure that Spark could run, before an event is asked for.

    :raises ConfigurationError: no such Spark connection, or a staging area that Spark cannot read.
    """
    require_connection(operator._conn_id)  # noqa: SLF001 - where our base class keeps it
    operator._hook = operator._get_hook()  # noqa: SLF001
    connection = operator._hook._connection  # noqa: SLF001 - as our base class reads it
    ensure_spark_can_read(str(staging_root(operator.staging)), connection["master"], shared=operator.staging_shared)


def require_connection(conn_id: str) -> None:
    """:raises ConfigurationError: no such connection; SparkSubmitHook would go to YARN, with one line in the log."""
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"Spark connection {conn_id!r} is not defined. Create it (type `spark`; host `local[2]`, `yarn` or `spark://host:7077`), "
            "or name another one by `spark_conn_id`."
        ) from error


def aim(operator: SfEventsToSparkOperator, manifest_url: str) -> None:
    """Complete the operator's Spark arguments for one batch."""
    job = put_job(staging_root(operator.staging))
    if operator._hook is not None and operator._hook._connection["deploy_mode"] != "cluster":  # noqa: SLF001 - as above
        operator.conf = QUIET | (operator.conf or {})
    arguments = ["--manifest", spark_url(manifest_url)]
    if not operator.application:
        operator.application = job.application
        arguments += ["--table", str(operator.table), "--format", operator.table_format]
        if operator.max_quarantined is not None:
            arguments += ["--max-quarantined", str(operator.max_quarantined)]
    operator.application_args = [*arguments, *map(str, operator.application_args or ())]
    operator.py_files = ",".join(filter(None, (operator.py_files, job.py_files)))


def forget_other_jobs(context: Context, job_key: str, batch_id: str) -> None:
    """A Spark job kept for resuming (cluster modes) counts only for the batch it was submitted for.

    Without this, a task that is cleared would take an earlier batch's finished job for this one's
    (`ResumableJobMixin`, Airflow 3.3).
    """
    state = context.get("task_state_store")
    if state is None or state.get(BATCH_KEY) == batch_id:
        return
    state.delete(job_key)
    state.set(BATCH_KEY, batch_id)
