"""Make sure, before the first delivery, that the user Spark runs as can read what is staged.

1. Only a folder of this machine has modes, and only a Spark on a cluster may run as another user.
   Anywhere else nothing is done.
2. A file is staged as events are, and a Spark job reads it (`spark/probe.py`). Its answer stays, so
   the job runs once for each way of submitting and each mode.
3. A standalone cluster runs no Python drivers in cluster mode, so nothing is asked there.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.places import open_staging, put_job, staging_root
from airflow_provider_sfevents.hooks.staging_mode import GROUP
from airflow_provider_sfevents.operators import landing
from airflow_provider_sfevents.spark.submitting import CLUSTER
from airflow_provider_sfevents.staging import durable, layout, modes
from airflow_provider_sfevents.staging.places import spark_url

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping

log = logging.getLogger(__name__)


def ensure_spark_can_open(
    task: Any,
    submission: landing.Submission,
    staging: str | None,
    context: Context,
    stopping: Stopping,
) -> None:
    """Let Spark read a file of the staging area, unless it is known that it can.

    :param task: the operator, a `SparkSubmitOperator` that is a `SubmitsToSpark`, too.
    :raises ConfigurationError: it cannot; names user, path and setting.
    """
    root = staging_root(staging)
    if not is_wanted(submission.master, submission.deploy_mode, local=durable.is_local(root)):
        return
    open_staging(staging, task.executor)
    probe = root / layout.PROBES / f"{_way(task, submission)}.txt"
    answer = probe.with_suffix(".json")
    if durable.read(probe) is not None and reason_of(durable.read(answer)) == "":
        return
    durable.remove(answer)
    durable.replace(probe, b"Spark reads this file before the first events are staged.\n")
    job = put_job(submission.job_root(staging), "probe")
    asking = _asking(task)
    said = ["--probe", spark_url(probe), "--answer", spark_url(answer)]
    landing.aim(asking, submission, job, said, 1)
    try:
        task.run_spark(asking, context, submission, stopping)
    except AirflowException:
        log.error(  # noqa: TRY400 - Airflow shows the error itself
            "Spark could not be asked whether it can read %s. If it runs as another user, see the"
            " setting %s.",
            *(probe, modes.OPTION),
        )
        raise
    finally:
        _close_pipe(asking._hook)  # noqa: SLF001
    if (reason := reason_of(durable.read(answer))) != "":
        raise ConfigurationError(refusal(reason, str(probe), submission.master))


def is_wanted(master: str, deploy_mode: str | None, *, local: bool) -> bool:
    """Whether Spark may run as another user than this task, and can be asked."""
    if not local or master.startswith("local"):
        return False
    return not (master.startswith("spark://") and deploy_mode == CLUSTER)


def reason_of(answer: bytes | None) -> str:
    """Why Spark cannot read the file; empty if it can."""
    if answer is None:
        return "it left no answer there"
    said = json.loads(answer)
    return f"user {said['user']!r}: {said['error']}" if said["error"] else ""


def refusal(reason: str, path: str, master: str) -> str:
    """Say what Spark cannot read, and the remedy."""
    return (
        f"Spark at {master} cannot read {path} ({reason}). Nothing was fetched. With "
        f"{modes.OPTION} = {modes.in_use().name} only some users may read what is staged: set {modes.OPTION} = "
        f"group, and [sfevents] {GROUP} to a group that Spark's user and the worker's are members "
        "of; or inherit. The folders above have to let Spark's user in, too."
    )


def _way(task: Any, submission: landing.Submission) -> str:
    """Name for a way of submitting under the mode in use."""
    way = (submission.master, submission.deploy_mode, task.proxy_user, task.principal)
    return hashlib.sha256(repr((*way, modes.in_use())).encode()).hexdigest()[:16]


def _asking(task: Any) -> Any:
    """The task once more, submitting the probe in place of what it would."""
    asking = copy.copy(task)
    asking.application, asking.application_args, asking._java_class = "", [], None  # noqa: SLF001
    asking.durable, asking._hook = False, None  # noqa: SLF001
    return asking


def _close_pipe(hook: Any) -> None:
    """Close spark-submit's output; Airflow's hook leaves it open for as long as the task runs."""
    process = None if hook is None else hook._submit_sp  # noqa: SLF001
    if process is not None:
        process.stdout.close()
