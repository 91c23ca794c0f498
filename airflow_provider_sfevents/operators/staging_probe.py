"""Check, before the first delivery, that Spark's user can read staged files.

1. Only a folder of this machine has modes, and only a Spark on a cluster may run as another user.
   Otherwise nothing is done.
2. A file is staged as events are, and a Spark job reads it (`spark/probe.py`). Its answer stays, so
   the job runs once for each way of submitting and each mode.
3. A standalone cluster runs no Python drivers in cluster mode, so no job is run there.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.staging_access import open_staging, put_job, staging_root
from airflow_provider_sfevents.hooks.staging_mode import GROUP
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files, file_modes
from airflow_provider_sfevents.staging.storage.staging_location import spark_url
from airflow_provider_sfevents.submit.deploy_modes import CLUSTER

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping

log = logging.getLogger(__name__)


def ensure_spark_can_open(
    task: Any,
    submission: spark_submission.Submission,
    staging: str | None,
    context: Context,
    stopping: Stopping,
) -> None:
    """Let Spark read a file of the staging area, unless an earlier answer shows that it can.

    :param task: the operator, a `SparkSubmitOperator` that is a `SubmitsToSpark`, too.
    :raises ConfigurationError: it cannot; the message names user, path and setting.
    """
    root = staging_root(staging)
    if not is_wanted(submission.master, submission.deploy_mode, local=durable_files.is_local(root)):
        return
    open_staging(staging, task.executor)
    probe = root / layout.PROBES / f"{_way(task, submission)}.txt"
    answer = probe.with_suffix(".json")
    if durable_files.read(probe) is not None and reason_of(durable_files.read(answer)) == "":
        return
    try:
        reason = read_by_spark(task, submission, staging, context, stopping)
    except AirflowException:
        log.error(  # noqa: TRY400 - Airflow shows the error itself
            "The Spark job that reads %s failed. If Spark runs as another user, see the setting"
            " %s.",
            *(probe, file_modes.OPTION),
        )
        raise
    if reason:
        raise ConfigurationError(refusal(reason, str(probe), submission.master))


def read_by_spark(
    task: Any,
    submission: spark_submission.Submission,
    staging: str | None,
    context: Context,
    stopping: Stopping,
) -> str:
    """Run the Spark job that reads a file of the staging area, whatever an earlier one answered.

    :return: the reason why Spark cannot read the file; empty if it can.
    :raises AirflowException: the job failed.
    """
    probe = staging_root(staging) / layout.PROBES / f"{_way(task, submission)}.txt"
    answer = probe.with_suffix(".json")
    durable_files.remove(answer)
    durable_files.replace(probe, b"Spark reads this file before the first events are staged.\n")
    job = put_job(submission.job_root(staging), "probe")
    asking = _asking(task)
    said = ["--probe", spark_url(probe), "--answer", spark_url(answer)]
    spark_submission.aim(asking, submission, job, said, 1)
    try:
        task.run_spark(asking, context, submission, stopping)
    finally:
        _close_pipe(asking._hook)  # noqa: SLF001
    return reason_of(durable_files.read(answer))


def is_wanted(master: str, deploy_mode: str | None, *, local: bool) -> bool:
    """Return whether Spark may run as another user than this task, and can run the probe."""
    if not local or master.startswith("local"):
        return False
    return not (master.startswith("spark://") and deploy_mode == CLUSTER)


def reason_of(answer: bytes | None) -> str:
    """Return the reason why Spark cannot read the file; empty if it can."""
    if answer is None:
        return "it wrote no answer"
    said = json.loads(answer)
    return f"user {said['user']!r}: {said['error']}" if said["error"] else ""


def refusal(reason: str, path: str, master: str) -> str:
    """Return the error message, with the remedy."""
    return (
        f"Spark at {master} cannot read {path} ({reason}). Nothing was fetched. With "
        f"{file_modes.OPTION} = {file_modes.in_use().name} only some users may read staged files: "
        f"set {file_modes.OPTION} = group, and [sfevents] {GROUP} to a group that has Spark's user "
        "and the worker's as members; or set inherit. The parent folders have to let Spark's user "
        "in, too."
    )


def _way(task: Any, submission: spark_submission.Submission) -> str:
    """Return a name for a way of submitting under the mode in use."""
    way = (submission.master, submission.deploy_mode, task.proxy_user, task.principal)
    return hashlib.sha256(repr((*way, file_modes.in_use())).encode()).hexdigest()[:16]


def _asking(task: Any) -> Any:
    """Return a copy of the task that submits the probe in place of its job."""
    asking = copy.copy(task)
    asking.application, asking.application_args, asking._java_class = "", [], None  # noqa: SLF001
    asking.durable, asking._hook = False, None  # noqa: SLF001
    return asking


def _close_pipe(hook: Any) -> None:
    """Close spark-submit's output; Airflow's hook leaves it open until the task ends."""
    process = None if hook is None else hook._submit_sp  # noqa: SLF001
    if process is not None:
        process.stdout.close()
