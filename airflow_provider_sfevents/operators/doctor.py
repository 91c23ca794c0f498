"""`SfEventsDoctorOperator`: check org, topics, staging area and Spark on a worker."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from typing_extensions import override

from airflow_provider_sfevents.doctor import findings
from airflow_provider_sfevents.doctor.airflow_findings import no_database
from airflow_provider_sfevents.doctor.org_checks import OrgChecks
from airflow_provider_sfevents.exceptions import ConfigurationError, SfEventsError
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.run_context import check_constant, describe_run, is_template
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.task_thread import run_async
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.worker_checks import worker_findings
from airflow_provider_sfevents.pubsub.topic_names import check_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.doctor.org_findings import Followed
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.pubsub.clock import Clock

log = logging.getLogger(__name__)

ORG_SECONDS = 60.0
"""Time for the checks of an org, all topics together."""


class SfEventsDoctorOperator(spark_submission.SubmitsToSpark, SparkSubmitOperator):
    """Check a set-up on the worker that runs the task: org, topics, staging area, Spark.

    No check publishes, requests an event, or moves a position. A `SparkSubmitOperator`: give
    `conf`, `packages` and so on as to the task whose set-up is checked; `conn_id` is Salesforce's
    and `application` is not taken. The log has a line for each check: its result, what was seen,
    the remedy, and where it ran.

    Result: `findings`, a list of these lines with `status` (`ok`, `warning`, `failed`,
    `not checked`), `checked`, `seen`, `remedy`, `where`; and `failed`, the names of the failed
    checks.

    :param conn_id: connection to the org.
    :param topics: topics whose permission, selection in Change Data Capture, or channel is checked.
        (templated)
    :param staging: as for `SfEventsToSparkOperator`. (templated)
    :param staging_shared: as for `SfEventsToSparkOperator`.
    :param spark_conn_id: connection of type `spark` or `spark_connect`; None: Spark is not checked.
    :param fail: fail the task if a check fails.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "topics", "staging")

    # Attributes that SparkSubmitOperator sets.
    application: str
    application_args: list[Any] | None
    conf: dict[Any, Any] | None
    env_vars: dict[str, Any] | None
    py_files: str | None

    def __init__(
        self,
        *,
        conn_id: str = SfEventsHook.default_conn_name,
        topics: Sequence[str] = (),
        staging: str | None = None,
        staging_shared: bool = False,
        spark_conn_id: str | None = "spark_default",
        fail: bool = True,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "sfevents-doctor")
        super().__init__(**kwargs)
        # SparkSubmitOperator reads `_conn_id`; `self.conn_id` is Salesforce's.
        self._conn_id = spark_conn_id
        self.conn_id = conn_id
        self.topics = topics
        self.staging = staging
        self.staging_shared = staging_shared
        self.spark_conn_id = spark_conn_id
        self.fail = fail
        self._check()

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        return self.run_stoppable(context, lambda stopping: self._run(context, stopping))

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        run = describe_run(context)
        where = findings.this_process(f"task {run.dag}.{run.task}, process")
        found = findings.at(where, [*self.look(context, stopping), no_database()])
        for one in found:
            level = logging.ERROR if one.status is findings.CheckStatus.FAILED else logging.INFO
            told = f"{one.seen} {one.remedy}".strip()
            log.log(level, "%s: %s: %s [%s]", one.status, one.checked, told, one.where)
        if self.fail and (said := findings.failure_sentence(found)):
            raise SfEventsError(said)
        return {
            "findings": [one.to_row() for one in found],
            "failed": [one.checked for one in findings.failures(found)],
        }

    def look(
        self,
        context: Context,
        stopping: Stopping,
        *,
        followed: Mapping[str, Followed] | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> list[Finding]:
        """Check the org, then this machine; in a thread that is not the main one.

        :param context: of the task; empty in a command.
        :param followed: as of `OrgChecks`.
        :param clock: of this machine.
        :param environ: has the proxies' names.
        """
        checks = OrgChecks(
            SfEventsHook(self.conn_id).settings,
            topics=self.topics,
            followed=followed,
            seconds=ORG_SECONDS,
            clock=clock,
            environ=environ,
        )
        of_org = run_async(lambda _: checks.run(), stopping)
        stopping.check("the remaining checks were left out")
        return [*of_org, *worker_findings(self, context, stopping)]

    def _check(self) -> None:
        """Check the arguments when the DAG is parsed.

        :raises ConfigurationError: one is wrong.
        """
        check_types(self, SfEventsDoctorOperator)
        check_types(self, SparkSubmitOperator, numbers=False)
        if self.application:
            raise ConfigurationError(
                f"application={self.application!r} has no effect here: the job is that of this "
                "package. Leave it out."
            )
        if isinstance(self.topics, str):
            if not is_template(self.topics):
                raise ConfigurationError(
                    f"topics={self.topics!r} is one text. Give a list of topics."
                )
        elif isinstance(self.topics, (list, tuple)):  # otherwise it is another task's result
            for one in self.topics:
                check_constant(check_topic, one)
