"""`SfEventsEntitySnapshotOperator`: an entity snapshot, to fill or repair a current-state table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.run_context import describe_run, is_template
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import open_staging, writing_state
from airflow_provider_sfevents.hooks.task_thread import run_async
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.job_options import SparkWork, options_of, sample_of
from airflow_provider_sfevents.operators.spark_jobs import open_spark
from airflow_provider_sfevents.pubsub.rest.entity_snapshot import (
    SnapshotRequest,
    check_entity,
    check_way,
)
from airflow_provider_sfevents.spark.current_state.current_state_options import CurrentStateOptions
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import (
    SnapshotOptions,
    time_of,
)
from airflow_provider_sfevents.spark.options import arguments_of
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.staging.snapshot_files import DELETED, RECORDS, REPORT, SCHEMA
from airflow_provider_sfevents.staging.storage.staging_location import spark_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.staging.snapshot_files import ReadFolder, ReadManifest


class SfEventsEntitySnapshotOperator(spark_submission.SubmitsToSpark, SparkSubmitOperator):
    """Read full records of an object from the org, and correct its current-state table by them.

    For the tables that `SfEventsToSparkOperator` writes with `current_state`: fills a new one, and
    clears the entries of its `resync` table. The records are read over REST or the Bulk API with
    the Salesforce connection's login, streamed into the staging area, and applied by Spark. A read
    counts only if it is complete; every try reads anew. While another task writes the same tables,
    this task gives way.

    A `SparkSubmitOperator`: every argument of it works, except `conn_id` (Salesforce's) and
    `application`.

    Result:

    - `entity`, `read_at`, `read_by`, `whole`, `fields`.
    - `unseen`: fields that the user cannot read.
    - `records`, `deleted`: number of records that were read, and that were asked for and do not
      exist.
    - `applied`: counts: `replaced`, `deleted`, `newer`, `refused`, and the remaining resync
      entries.

    :param entity: API name of the object: `Account`, `Invoice__c`. Expand over it for several, with
        `max_active_tis_per_dagrun=1`. (templated)
    :param current_state: root URL or namespace of the tables, as for `SfEventsToSparkOperator`.
        (templated)
    :param table_format: `delta` or `iceberg`.
    :param record_ids: read only these records. Default: all; records that the org does not have
        are deleted. (templated)
    :param read_by: `bulk`, `rest`, or `auto`: all records by the Bulk API, single ones over REST.
    :param lacking: fields that the table has and the org no longer has; they become null. Fields
        that the user cannot read are added.
    :param deletions: as for `SfEventsToSparkOperator`.
    :param history: as for `SfEventsToSparkOperator`.
    :param row_changes: as for `SfEventsToSparkOperator`.
    :param decimals: as for `SfEventsToSparkOperator`.
    :param landing_folder: as for `SfEventsToSparkOperator`. (templated)
    :param conn_id: connection of type `sfevents`; its user needs the permission API Enabled, and
        read access to the object's records.
    :param staging: as for `SfEventsToSparkOperator`. (templated)
    :param staging_shared: as for `SfEventsToSparkOperator`.
    :param spark_conn_id: connection of type `spark` or `spark_connect`; it has to exist.
    :raises ConfigurationError: an argument is wrong; raised when the DAG is parsed.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "entity",
        "current_state",
        "record_ids",
        "staging",
        "landing_folder",
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
        entity: str,
        current_state: str,
        table_format: str,
        record_ids: Any = None,
        read_by: str = "auto",
        lacking: Sequence[str] = (),
        deletions: str = "delete",
        history: bool = False,
        row_changes: str = "rewrite",
        decimals: Mapping[str, str] | None = None,
        landing_folder: str | None = None,
        conn_id: str = SfEventsHook.default_conn_name,
        staging: str | None = None,
        staging_shared: bool = False,
        spark_conn_id: str = "spark_default",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "sfevents-snapshot")
        super().__init__(**kwargs)
        # SparkSubmitOperator reads `_conn_id`; `self.conn_id` is Salesforce's.
        self._conn_id = spark_conn_id
        self.conn_id = conn_id
        self.entity = entity
        self.current_state = current_state
        self.table_format = table_format
        self.record_ids = record_ids
        self.read_by = read_by
        self.lacking = lacking
        self.deletions = deletions
        self.history = history
        self.row_changes = row_changes
        self.decimals = decimals
        self.landing_folder = landing_folder
        self.staging = staging
        self.staging_shared = staging_shared
        self._check()

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        return self.run_stoppable(context, lambda stopping: self._run(context, stopping))

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        request = SnapshotRequest(
            entity=self.entity, ids=_ids(self.record_ids), read_by=self.read_by
        )
        with (
            open_spark(self, context, stopping, tables=(self.current_state,)) as spark,
            writing_state(self.staging, self.current_state, describe_run(context)),
        ):
            root = open_staging(self.staging, self.executor).root
            hook = SfEventsHook(self.conn_id)
            folder, read = run_async(lambda _: hook.read_records(request, root), stopping, 0.0)
            spark.run(
                SparkWork(
                    job="entity_snapshot",
                    arguments=self._arguments(folder, read),
                    events=read.records or 1,
                    key=read.read_id,
                )
            )
        applied = folder.read_report()
        folder.remove_with_leftovers()
        told = {**asdict(read), "fields": list(read.fields), "unseen": list(read.unseen)}
        return {**told, "applied": applied}

    def _arguments(self, folder: ReadFolder, read: ReadManifest) -> list[str]:
        """Return the arguments of `spark/entity_snapshot.py`."""
        place = folder.folder
        return arguments_of(
            options_of(
                SnapshotOptions,
                self,
                records=spark_url(place / RECORDS),
                records_format=read.records_format,
                records_read=read.records,
                read_at=time_of(read.read_at),
                deleted_ids="" if read.whole else spark_url(place / DELETED),
                partial=not read.whole,
                event_schema=spark_url(place / SCHEMA),
                lacking=tuple(dict.fromkeys([*self.lacking, *read.unseen])),
                report=spark_url(place / REPORT),
            )
        )

    def _check(self) -> None:
        """Check the arguments when the DAG is parsed.

        :raises ConfigurationError: one is wrong.
        """
        check_types(self, SfEventsEntitySnapshotOperator)
        check_types(self, SparkSubmitOperator, numbers=False)
        if self.application:
            raise ConfigurationError(
                f"application={self.application!r} has no effect here: the job is that of this "
                "package. Leave it out."
            )
        options_of(CurrentStateOptions, self, current_state=sample_of(self.current_state)).check()
        read_decimals(self.decimals or {})
        check_way(self.read_by, whole=self.record_ids is None)
        if not is_template(self.entity):
            check_entity(self.entity)


def _ids(given: Any) -> tuple[str, ...] | None:
    """Return the record ids after rendering; None: all records.

    :raises ConfigurationError: they are no list of texts. An empty list is an error, too, as it
        could be meant as all records.
    """
    if given is None:
        return None
    if isinstance(given, str) or not given or any(not isinstance(one, str) for one in given):
        raise ConfigurationError(
            f"record_ids={given!r} is no list of record ids; give one, or leave it out to read all "
            "records."
        )
    return tuple(given)
