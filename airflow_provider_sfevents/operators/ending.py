"""How a task ends whose batch has landed: the position moves, assets are told, an error of the fetch is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import result
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.failures import airflow_failures
from airflow_provider_sfevents.hooks.run import describe_run, tell_assets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.batches.outcome import Staged


def commit(
    staged: Staged, context: Context, outlets: Sequence[Any], keep_batches: int
) -> dict[str, Any]:
    """Commit a landed batch and tell the task's outlet assets; the task's result."""
    with airflow_failures():
        excess = staged.excess()
        receipt = commit_batch(staged, describe_run(context), keep_batches)
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
