"""Upkeep of event tables and current-state tables: compaction, expiry of old versions, removal of unneeded files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.hooks.places import open_staging, put_job
from airflow_provider_sfevents.hooks.run import is_template
from airflow_provider_sfevents.operators import landing
from airflow_provider_sfevents.operators.job_options import options_of, sample_of
from airflow_provider_sfevents.operators.probing import ensure_spark_can_open
from airflow_provider_sfevents.spark.options import arguments_of
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files
from airflow_provider_sfevents.staging.storage.staging_location import spark_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping


class SfEventsMaintainOperator(landing.SubmitsToSpark, SparkSubmitOperator):
    """Compact tables that landings and applies write, expire their old versions, and remove files that no version needs.

    By default a dry run: the task reports what it would do and save, and changes nothing. It may run beside the tasks that write the tables, and a run
    that was killed is completed by the next one. No row of an event table is removed; of current state, tombstones that no late event can need.

    A `SparkSubmitOperator`: every argument of it works, but `conn_id` and `application`.

    Result: `dry_run`; sums over all tables of `files`, `size` (bytes), `files_after`, `expired`, `removed_files`, `removed_size` and `tombstones`;
    `skipped` (tables that other jobs kept committing to); and `tables`, the same for each table.

    :param table: root URL or namespace of the event tables, as `SfEventsToSparkOperator` has it. (templated)
    :param current_state: likewise, of the current-state tables. One of the two has to be given. (templated)
    :param table_format: `delta` or `iceberg`.
    :param keep_hours: versions of a table younger than this stay readable, with their files. At least 24, and longer than the longest query and the
        longest landing with its retries.
    :param dry_run: report, and change nothing. (templated)
    :param staging: as `SfEventsToSparkOperator` has it: for the job and its report. (templated)
    :param staging_shared: likewise.
    :param spark_conn_id: connection of type `spark`; it has to exist.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "table",
        "current_state",
        "dry_run",
        "staging",
    )

    # What SparkSubmitOperator makes of its arguments.
    application: str
    application_args: list[Any] | None
    conf: dict[Any, Any] | None
    env_vars: dict[str, Any] | None
    py_files: str | None

    def __init__(
        self,
        *,
        table: str | None = None,
        current_state: str | None = None,
        table_format: str,
        keep_hours: int = 168,
        dry_run: Any = True,
        staging: str | None = None,
        staging_shared: bool = False,
        spark_conn_id: str = "spark_default",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "sfevents-maintain")
        super().__init__(conn_id=spark_conn_id, **kwargs)
        self.table = table
        self.current_state = current_state
        self.table_format = table_format
        self.keep_hours = keep_hours
        self.dry_run = dry_run
        self.staging = staging
        self.staging_shared = staging_shared
        self._check()

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        return self.run_stoppable(context, lambda stopping: self._run(context, stopping))

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        submission = landing.plan(self, self.staging, shared=self.staging_shared)
        ensure_spark_can_open(self, submission, self.staging, context, stopping)
        root = open_staging(self.staging, self.executor).root
        job = put_job(submission.job_root(self.staging), "maintain")
        report = root / layout.UPKEEP / f"{uuid4().hex}.json"
        landing.forget_other_jobs(context, self.external_id_key, report.name, again=False)
        landing.aim(self, submission, job, self._arguments(spark_url(report)), 0)
        try:
            self.submit_to_spark(context, submission, stopping)
            told = durable_files.read(report)
        finally:
            durable_files.remove(report)
        if told is None:
            raise StagingError(
                f"The Spark job ended, but there is no report of it at {report}. Run the task again; it goes on where it ended."
            )
        found: dict[str, Any] = json.loads(told)
        return found

    def _arguments(self, report: str) -> list[str]:
        """Return the arguments of `spark/maintain.py`."""
        dry_run = is_dry(self.dry_run)
        return arguments_of(options_of(UpkeepOptions, self, dry_run=dry_run, report=report))

    def _check(self) -> None:
        """:raises ConfigurationError: for arguments that cannot work, when the DAG is parsed."""
        if self.application:
            raise ConfigurationError(
                f"application={self.application!r} has no use here: the job is that of this package. Leave it out."
            )
        locations = {
            name: sample_of(location)
            for name, location in (("table", self.table), ("current_state", self.current_state))
            if location
        }
        options_of(UpkeepOptions, self, dry_run=True, **locations).check()
        if not (isinstance(self.dry_run, str) and is_template(self.dry_run)):
            is_dry(self.dry_run)


def is_dry(given: Any) -> bool:
    """Whether a run is to change nothing; a rendered template is text.

    :raises ConfigurationError: neither yes nor no.
    """
    known = {"true": True, "false": False}
    if str(given).strip().lower() not in known:
        raise ConfigurationError(f"dry_run={given!r} is neither true nor false.")
    return known[str(given).strip().lower()]
