"""The operators: fetch, land with Spark, commit; in one task, or as a chain around your Spark task.

The order of effects is the guarantee: a batch is staged (durable, with its manifest) before Spark
sees it, and the position moves only if the batch's receipt proves that it landed.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from typing_extensions import override

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.commit import (
    check_before_landing,
)
from airflow_provider_sfevents.batches.open_transaction import OpenTransaction, require_flushed
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.outgoing.notifiers import notifiers_of
from airflow_provider_sfevents.hooks.run_context import describe_run
from airflow_provider_sfevents.hooks.staging_access import (
    writing_state,
)
from airflow_provider_sfevents.operators import spark_submission
from airflow_provider_sfevents.operators.batch_commit import (
    commit,
    report,
    tell_error,
)
from airflow_provider_sfevents.operators.fetching import FetchesBatch
from airflow_provider_sfevents.operators.job_options import (
    SparkWork,
    apply_options,
    check_landing_task,
    landing_options,
)
from airflow_provider_sfevents.operators.lineage import TABLES, TellsLineage
from airflow_provider_sfevents.operators.spark_jobs import open_spark
from airflow_provider_sfevents.spark.options import arguments_of
from airflow_provider_sfevents.staging.storage.staging_location import spark_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.operators.spark_jobs import SparkJobs
    from airflow_provider_sfevents.staging.manifest import Manifest


class SfEventsToSparkOperator(
    TellsLineage, spark_submission.SubmitsToSpark, FetchesBatch, SparkSubmitOperator
):
    """Fetch the events after the position, land them with Spark, move the position.

    A `SparkSubmitOperator`: every argument, template field and deploy mode of it works, except
    `conn_id`, which is Salesforce's here; Spark's is `spark_conn_id`. `FetchesBatch` has the
    arguments of the fetch.

    With an `application` of your own, `--manifest URL` is put before your `application_args`; read
    the batch with `airflow_provider_sfevents.spark.read_batch` and end with `write_receipt`.

    With `current_state` the same Spark job also applies change events to current-state tables
    (docs/explanation/change-events.md). If a bound ended a batch, its last transaction stays open.
    Then a run without events starts Spark, too, to apply it.

    Each table that got rows is told to Airflow as an asset, named by its URL, through the alias
    `sfevents_tables` (docs/how-to/lineage.md).

    Result, also the `extra` of the task's outlet asset events: `batch_id`, `batch_number`,
    `manifest`, `events`, `bytes`, `ended_by`, `quarantined`, `duplicates`, `tables` (rows by
    table), `losses` (loss windows), `extra_deliveries` (by cause), `reused` (the batch was staged
    already), `rerun` (the run landed its own batch again) and, with `current_state`, `applied`
    (counts).

    :param table: root URL of the tables, one for each event type; for Delta and Iceberg also a
        namespace of a catalog (no `/` in it), such as `lake.salesforce`. (templated)
    :param table_format: `parquet`; `delta` or `iceberg` with their jar (`packages`, `jars`).
    :param partition_by: of new tables: `event_date`, `none` (not Parquet), `event_month` (Iceberg).
    :param cluster_by: of new tables. Delta: columns of tables without partitions; default:
        `event_date`, `batch_number`. Iceberg: buckets, such as `["bucket(16, event_id)"]`.
    :param table_properties: `TBLPROPERTIES` of new event tables.
    :param landing_folder: URL for unfinished files and the types of columns. Default: the root,
        or the namespace's location. (templated)
    :param keep_payload: keep each event's raw bytes in the column `raw_payload`.
    :param decimals: decimal columns: `{"Amount__c": "decimal(18,2)", "*": "decimal(38,6)"}`.
    :param on_type_change: if a field changes in kind: `new_column`, or `quarantine` for its events.
    :param max_quarantined: number of events of a batch that may fail to decode; with more the task
        fails and lands nothing. Default: fail if no event of the batch decodes.
    :param current_state: root URL of the current-state tables, one for each entity, or a namespace;
        not `table`'s, and only with Delta or Iceberg and a topic below `/data/`. Default: change
        events are landed only. (templated)
    :param deletions: of a deleted record's row: `delete`, or `flag` (column `is_deleted`).
    :param new_entities: assumption on an entity at its first event: `unseeded` (its records wait
        for an entity snapshot), or `empty` (the org had none before).
    :param history: keep every state of a record, in a table beside that of the records.
    :param row_changes: of new current-state tables: `rewrite` the file of a changed row, or
        `vectors` (deletion vectors, merge-on-read), which fewer programs read
        (docs/how-to/read-tables.md).
    :param spark_conn_id: connection of type `spark` (one `spark-submit` for each batch), or
        `spark_connect` (a running server: rows within seconds); it has to exist.
    :param notifier: a `BaseNotifier`, a function that takes the context, or a list of these; called
        after the commit of a batch with loss windows or events in quarantine
        (docs/how-to/alerts.md).
    """

    template_fields: Sequence[str] = (
        *FetchesBatch.template_fields,
        *SparkSubmitOperator.template_fields,
        "table",
        "landing_folder",
        "current_state",
    )

    # Attributes that SparkSubmitOperator sets.
    application: str
    application_args: list[Any] | None
    conf: dict[Any, Any] | None
    env_vars: dict[str, Any] | None
    py_files: str | None

    timeout_reserve = 300.0
    """Seconds for Spark to start, decode and write; on a busy machine that takes minutes."""

    def __init__(
        self,
        *,
        table: str | None = None,
        table_format: str = "parquet",
        partition_by: str = "event_date",
        cluster_by: Sequence[str] | None = None,
        table_properties: Mapping[str, str] | None = None,
        landing_folder: str | None = None,
        max_quarantined: int | None = None,
        keep_payload: bool = False,
        decimals: Mapping[str, str] | None = None,
        on_type_change: str = "new_column",
        current_state: str | None = None,
        deletions: str = "delete",
        new_entities: str = "unseeded",
        history: bool = False,
        row_changes: str = "rewrite",
        spark_conn_id: str = "spark_default",
        notifier: Any = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "sfevents")
        super().__init__(**kwargs)
        self.add_outlets([TABLES])
        # SparkSubmitOperator reads `_conn_id`; `self.conn_id` is Salesforce's.
        self._conn_id = spark_conn_id
        self.table = table
        self.table_format = table_format
        self.partition_by = partition_by
        self.cluster_by = cluster_by
        self.table_properties = table_properties
        self.landing_folder = landing_folder
        self.max_quarantined = max_quarantined
        self.keep_payload = keep_payload
        self.decimals = decimals
        self.on_type_change = on_type_change
        self.current_state = current_state
        self.deletions = deletions
        self.new_entities = new_entities
        self.history = history
        self.row_changes = row_changes
        self.notifiers = notifiers_of(notifier)
        check_types(self, SfEventsToSparkOperator)
        check_types(self, SparkSubmitOperator, numbers=False)
        check_landing_task(self)

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        return self.run_stoppable(context, lambda stopping: self._run(context, stopping))

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        tables = (self.table, self.current_state)
        with (
            open_spark(self, context, stopping, tables=tables, seconds=self.max_seconds) as spark,
            self.staged_batch(context, stopping) as staged,
        ):
            if isinstance(staged, Empty):
                if staged.open_transaction and self.current_state:
                    self._flush(staged.open_transaction, spark, context)
                return self.nothing_came(staged)
            if not staged.landed:
                self._land(staged, spark, context)
                self.stages.reached("landed")
            done = self.landed = commit(
                staged,
                context,
                self.outlets,
                stopping,
                keep_batches=self.keep_batches,
                keep_for=self.keep_for,
                commit_seconds=self.commit_seconds,
            )
            self.stages.reached("committed")
        self.log.info("Batch %s: %s.", staged.manifest.batch_id, self.stages)
        report(staged, done, self.stages.begun_at, context, self.notifiers)
        tell_error(staged)
        return done

    def _land(self, staged: Staged, spark: SparkJobs, context: Context) -> None:
        """Run Spark on the batch; safe while the Spark job of an earlier try still runs."""
        check_before_landing(staged)
        manifest, url = staged.manifest, staged.folder.manifest_url
        self._run_job(
            manifest,
            self._spark_work(manifest, url, manifest.batch_id, again=staged.rerun),
            spark,
            context,
        )

    def _flush(self, open_transaction: OpenTransaction, spark: SparkJobs, context: Context) -> None:
        """Run Spark to apply the open transaction of the batch before.

        A run without events proves that the transaction is complete.
        """
        manifest, folder = open_transaction.manifest, open_transaction.folder
        self.log.info("No newer events: applying the open transaction of %s.", manifest.batch_id)
        key = f"{manifest.batch_id}, flushed"
        work = self._spark_work(manifest, folder.manifest_url, key, flush=True)
        self._run_job(manifest, work, spark, context)
        require_flushed(manifest, folder.read_receipt(), folder.url)

    def _run_job(
        self, manifest: Manifest, work: SparkWork, spark: SparkJobs, context: Context
    ) -> None:
        state, run = self.current_state, describe_run(context)
        with writing_state(self.staging, state, run) if state else nullcontext():
            steps.reached(steps.SPARK_NEXT, manifest.batch_id)
            spark.run(work)
            steps.reached(steps.SPARK_ENDED, manifest.batch_id)

    def _spark_work(
        self, manifest: Manifest, url: str, key: str, *, again: bool = False, flush: bool = False
    ) -> SparkWork:
        """Return the job for a batch: this package's, or the user's with the manifest's URL."""
        users = bool(self.application)
        return SparkWork(
            job="apply" if self.current_state else "land",
            arguments=["--manifest", spark_url(url)]
            if users
            else self._arguments(url, flush=flush),
            events=None if users else manifest.events,
            key=key,
            again=again,
        )

    def _arguments(self, url: str, *, flush: bool) -> list[str]:
        """Return the arguments of `spark/land.py` or `spark/apply.py`."""
        manifest_url = spark_url(url)
        options = landing_options(self, manifest_url)
        if not self.current_state:
            return arguments_of(options)
        return arguments_of(options, apply_options(self, manifest_url, flush=flush))
