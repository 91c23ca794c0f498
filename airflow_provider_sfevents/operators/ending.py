"""End of a task whose batch has landed: commit the position, tell the assets, tell an error of the fetch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import result
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.hooks.run import describe_run, tell_assets
from airflow_provider_sfevents.positions import stores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.batches.outcome import Staged
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.positions.stores import PositionStore

log = logging.getLogger(__name__)


def commit(
    staged: Staged,
    context: Context,
    outlets: Sequence[Any],
    stopping: Stopping,
    *,
    keep_batches: int,
    commit_seconds: float,
) -> dict[str, Any]:
    """Commit a landed batch and tell the task's outlet assets; the task's result."""
    receipt = commit_batch(
        staged,
        describe_run(context),
        keep_batches,
        commit_seconds=commit_seconds,
        wait=stopping.wait,
    )
    excess = staged.excess()
    done = result(
        staged.manifest,
        staged.folder.manifest_url,
        receipt,
        excess=excess,
        adopted=staged.adopted,
        again=staged.again,
    )
    tell_assets(context, outlets, done)
    return done


def tell_error(staged: Staged) -> None:
    """Tell, after the commit, that the fetch ended by an error: a warning if the error passes.

    :raises AirflowFailException: with an error that does not pass; the next run would meet it, too.
    """
    manifest = staged.manifest
    if not manifest.error or staged.again:
        return
    if manifest.ended_by == "lost":
        log.warning(
            "Salesforce was away when the fetch ended, so more events may be pending; the next run fetches them. %s",
            manifest.error,
        )
        return
    raise AirflowFailException(
        f"The batch ({counted(manifest.events, 'event')}) is landed and committed, but the fetch had "
        f"ended by an error: {manifest.error}"
    )


def require_committed(fetched: Mapping[str, Any], store: PositionStore) -> None:
    """Make sure that a batch that is not staged any more was committed before.

    A commit that is tried again finds its batch swept, if later runs have committed theirs meanwhile.

    :raises StagingError: the position is not beyond it.
    """
    position = stores.read(store)
    epoch = str(fetched["batch_id"]).rpartition("-")[0]
    if position is None or position.epoch != epoch or position.sequence < fetched["sequence"]:
        raise StagingError(
            f"No batch is staged at {fetched['manifest']}, and {store.where} has not passed batch "
            f"{fetched['batch_id']}. It was removed, or `staging` is not the fetch's."
        )
    log.info(
        "Batch %s was committed before, and swept; nothing is left to do.", fetched["batch_id"]
    )


def require_result(batch: Any) -> dict[str, Any]:
    """:raises ConfigurationError: unless it is what an SfEventsFetchOperator returned."""
    if (
        isinstance(batch, dict)
        and {"org_id", "manifest", "events", "adopted", "again"} <= batch.keys()
    ):
        return batch
    raise ConfigurationError(
        f"batch={batch!r} is not the result of an SfEventsFetchOperator; give `fetch.output`."
    )
