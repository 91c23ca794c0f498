"""The operators: fetch, land with Spark, commit; in one task, or as a chain around a Spark task of your own.

The order of effects is the promise: a batch is staged (durable, with its manifest) before Spark sees it, and the
position moves only when the batch's receipt proves that it landed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.commit import check_before_landing, commit_batch, take_staged
from airflow_provider_sfevents.batches.outcome import Empty, Staged, result
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.failures import airflow_failures
from airflow_provider_sfevents.hooks.places import open_batch, put_job, staging_root
from airflow_provider_sfevents.hooks.run import describe_run, position_tasks, tell_assets
from airflow_provider_sfevents.operators import landing
from airflow_provider_sfevents.operators.fetching import FetchesBatch
from airflow_provider_sfevents.positions.opening import open_store
from airflow_provider_sfevents.staging.places import spark_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context


class SfEventsToSparkOperator(FetchesBatch, SparkSubmitOperator):
    """Fetch the events after the position, land them with Spark, move the position.

    A `SparkSubmitOperator`: every argument, template field and deploy mode of it works, but `conn_id`, which is the
    Salesforce connection here; Spark's is `spark_conn_id`. The arguments of `FetchesBatch` say what is fetched.

    With an `application` of your own, `--manifest URL` is put before your `application_args`; read the batch with
    `airflow_provider_sfevents.spark.read_batch` and end with `write_receipt`.

    Result: `batch_id`, `sequence`, `manifest`, `events`, `bytes`, `ended_by`, `quarantined`, `tables` (rows by table)
    and `adopted`; also the `extra` of the events of the task's outlet assets.

    :param table: root URL of the tables, one for each event type; for Delta and Iceberg also the name of a namespace in a catalog, such
        as `lake.salesforce`. What holds a `/` is a URL. (templated)
    :param table_format: `parquet`, `delta` or `iceberg`. The last two need their jar: `packages`, or `jars`.
    :param partition_by: how tables are partitioned when they are made: `event_date`; for Delta and Iceberg also `none`, for Iceberg
        `event_month`.
    :param landing_folder: URL of the folder for files on their way and marks of what has landed. Default: the root, or the namespace's
        location. (templated)
    :param keep_payload: keep each event's raw bytes in the column `raw_payload`.
    :param decimals: numbers to land as decimals, by field: `{"Amount__c": "decimal(18,2)", "*": "decimal(38,6)"}`.
    :param on_type_change: what becomes of a field that changes in kind: `new_column`, or `quarantine` for its events.
    :param decoder: `jvm`, `arrow`, `python`, or `auto`: the quickest that is there.
    :param max_quarantined: how many events of a batch may fail to decode before the task fails instead of landing it.
        Default: fail when no event of the batch decodes.
    :param spark_conn_id: connection of type `spark`; it has to exist.
    """

    template_fields: Sequence[str] = (
        *FetchesBatch.template_fields,
        *SparkSubmitOperator.template_fields,
        "table",
        "landing_folder",
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
        table_format: str = "parquet",
        partition_by: str = "event_date",
        landing_folder: str | None = None,
        max_quarantined: int | None = None,
        keep_payload: bool = False,
        decimals: Mapping[str, str] | None = None,
        on_type_change: str = "new_column",
        decoder: str = "auto",
        spark_conn_id: str = "spark_default",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "sfevents")
        super().__init__(**kwargs)
        # Where SparkSubmitOperator looks; `self.conn_id` is Salesforce's.
        self._conn_id = spark_conn_id
        self.table = table
        self.table_format = table_format
        self.partition_by = partition_by
        self.landing_folder = landing_folder
        self.max_quarantined = max_quarantined
        self.keep_payload = keep_payload
        self.decimals = decimals
        self.on_type_change = on_type_change
        self.decoder = decoder
        self._wanted().check(self.application)

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_failures():
            submission = self._plan()
        with self.staged_batch(context) as staged:
            if isinstance(staged, Empty):
                return self.nothing_came(staged)
            if not staged.landed:
                self._land(staged, submission, context)
            done = commit(staged, context, self.outlets, self.keep_batches)
        fail_after_landing(staged)
        return done

    def _wanted(self) -> landing.Wanted:
        return landing.Wanted(
            table=self.table,
            table_format=self.table_format,
            partition_by=self.partition_by,
            landing_folder=self.landing_folder,
            max_quarantined=self.max_quarantined,
            keep_payload=self.keep_payload,
            decimals=self.decimals,
            on_type_change=self.on_type_change,
            decoder=self.decoder,
        )

    def _plan(self) -> landing.Submission:
        landing.require_connection(self._conn_id)
        try:
            connection = self._get_hook()._connection  # noqa: SLF001 - as our base class reads it
        except (ValueError, RuntimeError) as error:
            raise ConfigurationError(
                f"Spark connection {self._conn_id!r} cannot be used: {error}"
            ) from error
        return landing.plan_submission(
            connection, self.env_vars, self.staging, shared=self.staging_shared
        )

    def _land(self, staged: Staged, submission: landing.Submission, context: Context) -> None:
        """Launch Spark on the batch; safe with a twin of an earlier try still at it."""
        with airflow_failures():
            check_before_landing(staged)
            job = put_job(staging_root(self.staging))
            landing.forget_other_jobs(
                context, self.external_id_key, staged.manifest.batch_id, again=staged.again
            )
        users = bool(self.application)
        arguments = ["--manifest", spark_url(staged.folder.manifest_url)]
        arguments += [] if users else self._wanted().arguments()
        self.application = self.application or job.application
        self.application_args = [*arguments, *landing.texts(self.application_args)]
        self.py_files = landing.joined(self.py_files, job.py_files)
        self.conf = submission.conf(self.conf or {}, None if users else staged.manifest.events)
        self.env_vars = {**submission.env, **(self.env_vars or {})} or None
        self._spark_binary = submission.binary
        steps.reached(steps.SPARK_NEXT, staged.manifest.batch_id)
        SparkSubmitOperator.execute(self, context)
        steps.reached(steps.SPARK_ENDED, staged.manifest.batch_id)

    @override
    def on_kill(self) -> None:
        FetchesBatch.on_kill(self)
        if self._hook is not None:
            SparkSubmitOperator.on_kill(self)


class SfEventsFetchOperator(FetchesBatch):
    """Fetch the events after the position and stage them, for a chain: this, your Spark task, `SfEventsCommitOperator`.

    Result: as `SfEventsToSparkOperator`'s, without rows by table, and with what the Spark task wants to know:
    `spark_manifest` (the manifest's URL in Spark's spelling), `application` and `py_files` (the job of this package,
    put into the staging area). With no event the chain is skipped, unless `skip_when_empty=False`.
    """

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        with self.staged_batch(context) as staged:
            if isinstance(staged, Empty):
                return self.nothing_came(staged)
            with airflow_failures():
                job = put_job(staging_root(self.staging))
        url = staged.folder.manifest_url
        return {
            **result(staged.manifest, url, None, adopted=staged.adopted, again=staged.again),
            "spark_manifest": spark_url(url),
            "application": job.application,
            "py_files": job.py_files,
        }


class SfEventsCommitOperator(BaseOperator):
    """Move the position to the end of a batch that a chain has landed; nothing moves without the batch's receipt.

    Result: as `SfEventsToSparkOperator`'s; also the `extra` of the events of the task's outlet assets.

    :param batch: the result of the chain's `SfEventsFetchOperator`: `fetch.output`. (templated)
    :param position_store: the same as the fetch's.
    :param staging: the same as the fetch's. (templated)
    :param keep_batches: how many committed batches stay in the staging area.
    """

    template_fields: Sequence[str] = ("batch", "staging")

    keeps_position = True

    def __init__(
        self,
        *,
        batch: Any,
        position_store: Any = "variable",
        staging: str | None = None,
        keep_batches: int = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.batch = batch
        self.position_store = position_store
        self.staging = staging
        self.keep_batches = keep_batches

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_failures():
            fetched = require_result(self.batch)
            if not fetched["events"]:
                return fetched
            topic_folder, folder, manifest = open_batch(fetched["manifest"], self.staging)
            store = open_store(
                self.position_store,
                org_id=manifest.org_id,
                consumer=manifest.consumer,
                topic=manifest.topic,
                context=context,
                tasks=[manifest.run.task, *position_tasks(context)],
            )
            staged = take_staged(
                manifest,
                topic_folder,
                folder,
                store,
                describe_run(context),
                adopted=fetched["adopted"],
                again=fetched["again"],
            )
        try:
            done = commit(staged, context, self.outlets, self.keep_batches)
        finally:
            staged.release()
        fail_after_landing(staged)
        return done


def commit(
    staged: Staged, context: Context, outlets: Sequence[Any], keep_batches: int
) -> dict[str, Any]:
    """Commit a landed batch and tell the task's outlet assets; the task's result."""
    with airflow_failures():
        receipt = commit_batch(staged, describe_run(context), keep_batches)
    done = result(
        staged.manifest,
        staged.folder.manifest_url,
        receipt,
        adopted=staged.adopted,
        again=staged.again,
    )
    tell_assets(context, outlets, done)
    return done


def fail_after_landing(staged: Staged) -> None:
    """A fetch that ended by an error has landed what was paid for; now the error is told, once.

    :raises AirflowFailException: with that error. It is one that trying again does not mend (the others end no batch).
    """
    manifest = staged.manifest
    if manifest.error and not staged.again:
        raise AirflowFailException(
            f"The {manifest.events} events received are landed and committed, but the fetch had ended by an error: {manifest.error}"
        )


def require_result(batch: Any) -> dict[str, Any]:
    """:raises ConfigurationError: unless it is what an SfEventsFetchOperator returned."""
    if isinstance(batch, dict) and {"manifest", "events", "adopted", "again"} <= batch.keys():
        return batch
    raise ConfigurationError(
        f"batch={batch!r} is not the result of an SfEventsFetchOperator; give `fetch.output`."
    )
