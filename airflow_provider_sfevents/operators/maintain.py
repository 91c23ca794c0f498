"""`SfEventsMaintainOperator`: compact tables, expire old versions, remove unneeded files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.run_context import is_template
from airflow_provider_sfevents.hooks.staging_access import open_staging
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.job_options import SparkWork, options_of, sample_of
from airflow_provider_sfevents.operators.spark_jobs import open_spark
from airflow_provider_sfevents.spark.options import arguments_of
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files
from airflow_provider_sfevents.staging.storage.staging_location import spark_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping


class SfEventsMaintainOperator(spark_submission.SubmitsToSpark, SparkSubmitOperator):
    """Compact event and current-state tables, expire old versions, remove unneeded files.

    By default a dry run: the task reports its effects and changes nothing. It may run beside tasks
    that write the tables. The next run completes one that was killed. No row of an event table is
    removed; of current-state tables, only tombstones that no late event can need.

    A `SparkSubmitOperator`: every argument of it works, except `conn_id` and `application`.

    Result:

    - `dry_run`.
    - Sums over all tables: `files`, `size` (bytes), `files_after`, `expired`, `removed_files`,
      `removed_size`, `tombstones`.
    - `skipped`: tables that other jobs kept committing to.
    - `tables`: the same values for each table.

    :param table: root URL or namespace of the event tables, as for `SfEventsToSparkOperator`.
        (templated)
    :param current_state: root URL or namespace of the current-state tables. At least one of the two
        has to be given. (templated)
    :param table_format: `delta` or `iceberg`.
    :param keep_hours: versions of a table younger than this stay readable, with their files. At
        least 24, and longer than the longest query and the longest landing with its retries.
    :param dry_run: report, and change nothing. (templated)
    :param staging: as for `SfEventsToSparkOperator`; for the job and its report. (templated)
    :param staging_shared: as for `SfEventsToSparkOperator`.
    :param spark_conn_id: connection of type `spark` or `spark_connect`; it has to exist.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "table",
        "current_state",
        "dry_run",
        "staging",
    )

    # Attributes that SparkSubmitOperator sets.
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
        tables = (self.table, self.current_state)
        with open_spark(self, context, stopping, tables=tables) as spark:
            root = open_staging(self.staging, self.executor).root
            report = root / layout.UPKEEP / f"{uuid4().hex}.json"
            arguments = self._arguments(spark_url(report))
            try:
                spark.run(SparkWork(job="maintain", arguments=arguments, events=0, key=report.name))
                told = durable_files.read(report)
            finally:
                durable_files.remove(report)
        if told is None:
            raise StagingError(
                f"The Spark job ended without a report at {report}. Run the task again; it "
                "continues with the tables that are left."
            )
        found: dict[str, Any] = json.loads(told)
        return found

    def _arguments(self, report: str) -> list[str]:
        """Return the arguments of `spark/maintain.py`."""
        dry_run = is_dry(self.dry_run)
        return arguments_of(options_of(UpkeepOptions, self, dry_run=dry_run, report=report))

    def _check(self) -> None:
        """Check the arguments when the DAG is parsed.

        :raises ConfigurationError: one is wrong.
        """
        check_types(self, SfEventsMaintainOperator)
        check_types(self, SparkSubmitOperator, numbers=False)
        if self.application:
            raise ConfigurationError(
                f"application={self.application!r} has no effect here: the job is that of this "
                "package. Leave it out."
            )
        locations = {
            name: sample_of(location)
            for name, location in (("table", self.table), ("current_state", self.current_state))
            if location
        }
        options_of(UpkeepOptions, self, dry_run=True, **locations).check()
        if not is_template(self.dry_run):
            is_dry(self.dry_run)


def is_dry(given: Any) -> bool:
    """Return the value of `dry_run`, which is text if it was a template.

    :raises ConfigurationError: it is neither true nor false.
    """
    known = {"true": True, "false": False}
    text = str(given).strip().lower()
    if text not in known:
        raise ConfigurationError(f"dry_run={given!r} is neither true nor false; give one of them.")
    return known[text]
