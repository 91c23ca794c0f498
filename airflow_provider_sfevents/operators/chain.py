"""The two ends of a chain around your Spark task: fetch and stage a batch, and commit it.

The order of effects is that of `SfEventsToSparkOperator`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from typing_extensions import override

from airflow_provider_sfevents.batches.commit import (
    COMMIT_SECONDS,
    take_staged,
)
from airflow_provider_sfevents.batches.outcome import Empty, result
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.outgoing.notifiers import notifiers_of
from airflow_provider_sfevents.hooks.run_context import describe_run, position_tasks
from airflow_provider_sfevents.hooks.staging_access import (
    open_batch,
    open_staging,
    put_job,
    staging_root,
)
from airflow_provider_sfevents.hooks.stoppable import StoppableTask
from airflow_provider_sfevents.operators.batch_commit import (
    commit,
    report,
    require_committed,
    require_result,
    tell_error,
)
from airflow_provider_sfevents.operators.fetching import (
    FetchesBatch,
    SfEventsPositionLink,
    SfEventsTablesLink,
)
from airflow_provider_sfevents.operators.lineage import TABLES, TellsLineage
from airflow_provider_sfevents.positions.store_choice import open_store
from airflow_provider_sfevents.staging.storage.staging_location import spark_url
from airflow_provider_sfevents.staging.sweeping import NO_TIME, check_keep_batches, check_keep_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder


class SfEventsFetchOperator(FetchesBatch):
    """Fetch the events after the position and stage them, as the first task of a chain.

    The chain: this task, your Spark task, `SfEventsCommitOperator`.

    Result: as that of `SfEventsToSparkOperator`, without rows by table, and with values for the
    Spark task: `spark_manifest` (the manifest's URL in Spark's spelling), `application` and
    `py_files` (the job of this package, in the staging area). Without an event the chain is
    skipped, unless `skip_when_empty=False`.

    A Spark task that applies (`--current-state`) needs `apply_application` instead of
    `application`, and the value of `flush` as an argument. It is `--no-flush`; if no event came
    and the batch before, now `spark_manifest`, has an open transaction, it is `--flush`, and the
    chain is not skipped.
    """

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        return self.run_stoppable(context, lambda stopping: self._run(context, stopping))

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        with self.staged_batch(context, stopping) as staged:
            if isinstance(staged, Empty):
                if staged.open_transaction is None:
                    return self.nothing_came(staged)
                return {
                    **staged.result(),
                    **self._for_spark(staged.open_transaction.folder, flush=True),
                }
            extra_deliveries = staged.extra_deliveries()
            told = self._for_spark(staged.folder, flush=False)
        done = result(
            staged.manifest,
            staged.folder.manifest_url,
            None,
            extra_deliveries=extra_deliveries,
            reused=staged.reused,
            rerun=staged.rerun,
        )
        return {**done, **told}

    def _for_spark(self, folder: BatchFolder, *, flush: bool) -> dict[str, str]:
        """Return the values for the Spark task."""
        root = staging_root(self.staging)
        land, apply = put_job(root, "land"), put_job(root, "apply")
        return {
            "spark_manifest": spark_url(folder.manifest_url),
            "application": land.application,
            "apply_application": apply.application,
            "py_files": land.py_files,
            "flush": "--flush" if flush else "--no-flush",
        }


class SfEventsCommitOperator(TellsLineage, StoppableTask, BaseOperator):
    """Move the position to the end of a batch that a chain has landed, proved by its receipt.

    Result: as that of `SfEventsToSparkOperator`; also the `extra` of the task's outlet asset
    events.

    :param batch: the result of the chain's `SfEventsFetchOperator`: `fetch.output`. (templated)
    :param position_store: as for the fetch.
    :param staging: as for the fetch. (templated)
    :param commit_seconds: seconds for which a commit is retried if the store does not answer.
    :param keep_batches: as for the fetch, as is `keep_for`.
    :param notifier: as for `SfEventsToSparkOperator`.
    """

    operator_extra_links = (SfEventsPositionLink(), SfEventsTablesLink())

    template_fields: Sequence[str] = ("batch", "staging")

    keeps_position = True

    def __init__(
        self,
        *,
        batch: Any,
        position_store: Any = "variable",
        staging: str | None = None,
        commit_seconds: float = COMMIT_SECONDS,
        keep_batches: int = 10,
        keep_for: timedelta = NO_TIME,
        notifier: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.add_outlets([TABLES])
        self.batch = batch
        self.position_store = position_store
        self.staging = staging
        self.commit_seconds = commit_seconds
        self.keep_batches = check_keep_batches(keep_batches)
        self.keep_for = check_keep_for(keep_for)
        self.notifiers = notifiers_of(notifier)
        check_types(self, SfEventsCommitOperator)

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        return self.run_stoppable(context, lambda stopping: self._run(context, stopping))

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        fetched, begun_at = require_result(self.batch), datetime.now(UTC)
        if not fetched["events"]:
            return fetched
        store = open_store(
            self.position_store,
            org_id=fetched["org_id"],
            consumer=fetched["consumer"],
            topic=fetched["topic"],
            context=context,
            tasks=position_tasks(context),
        )
        area = open_staging(self.staging, self.executor)
        topic_folder, folder, manifest = open_batch(fetched["manifest"], self.staging)
        if manifest is None:
            require_committed(fetched, store)
            return fetched
        staged = take_staged(
            manifest,
            topic_folder,
            folder,
            store,
            describe_run(context),
            area.staging_id(),
            reused=fetched["reused"],
            rerun=fetched["rerun"],
        )
        try:
            done = self.landed = commit(
                staged,
                context,
                self.outlets,
                stopping,
                keep_batches=self.keep_batches,
                keep_for=self.keep_for,
                commit_seconds=self.commit_seconds,
            )
        finally:
            staged.release()
        report(staged, done, begun_at, context, self.notifiers)
        tell_error(staged)
        return done
