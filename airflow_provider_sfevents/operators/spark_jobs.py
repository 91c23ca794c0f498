"""Way in which a task runs this package's Spark jobs, by the type of its Spark connection.

`spark`: one `spark-submit` for each job (`spark_submission`). `spark_connect`: statements in a
session of a running server (`spark_connect`). Both are checked before anything is fetched.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.staging_probe import ensure_spark_can_open

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.operators.job_options import SparkWork


SPARK_CONNECT = "spark_connect"
"""Connection type of Airflow's `SparkConnectHook`, whose module most tasks do not load."""


class SparkJobs(Protocol):
    """Spark, checked and ready to run jobs."""

    def run(self, work: SparkWork) -> None:
        """Run a job to its end.

        :raises StoppedError: the task was ended, before Spark was started or while it ran.
        """


def open_spark(
    task: Any,
    context: Context,
    stopping: Stopping,
    *,
    tables: Sequence[str | None],
    seconds: float | None = None,
) -> AbstractContextManager[SparkJobs]:
    """Check that Spark can run the task's jobs and read the staging area.

    :param task: an operator that is a `SubmitsToSpark` and has `staging`, `staging_shared`.
    :param tables: root URLs or namespaces that the jobs write.
    :param seconds: time in which a job is run again after the server's session was lost.
    :raises ConfigurationError: it cannot, for a reason that a retry does not change.
    :raises TransportError: Spark does not answer.
    """
    conn_id = str(task._conn_id)  # noqa: SLF001 - as the base class reads it
    if spark_submission.connection_type(conn_id) == SPARK_CONNECT:
        from airflow_provider_sfevents.operators import spark_connect  # most tasks do not need it

        return spark_connect.connected(task, stopping, tables=tables, seconds=seconds)
    submission = spark_submission.plan(
        task, task.staging, shared=task.staging_shared, tables=tables
    )
    ensure_spark_can_open(task, submission, task.staging, context, stopping)
    return nullcontext(spark_submission.SubmittedJobs(task, submission, context, stopping))
