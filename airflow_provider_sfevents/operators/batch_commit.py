"""End of a task whose batch has landed: commit the position, tell the assets, report an error."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import result
from airflow_provider_sfevents.batches.position.position_metrics import of_commit, summary
from airflow_provider_sfevents.batches.position.remedies import QUARANTINE, of_loss_window
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, SfEventsError, StagingError
from airflow_provider_sfevents.hooks.outgoing.notifiers import notify
from airflow_provider_sfevents.hooks.outgoing.task_metrics import emit
from airflow_provider_sfevents.hooks.run_context import describe_run, tell_assets
from airflow_provider_sfevents.operators.lineage import tell_tables
from airflow_provider_sfevents.positions import stores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

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
    keep_for: timedelta,
    commit_seconds: float,
) -> dict[str, Any]:
    """Commit a landed batch and tell the task's outlet assets; returns the task's result.

    :param stopping: a request ends the retries of the commit.
    :param keep_batches: number of committed batches that stay in the staging area.
    :param keep_for: time after its landing for which a batch stays there in any case.
    :param commit_seconds: seconds for which a failing commit is retried.
    """
    receipt = commit_batch(
        staged,
        describe_run(context),
        keep_batches,
        keep_for=keep_for,
        commit_seconds=commit_seconds,
        wait=stopping.wait,
    )
    extra_deliveries = staged.extra_deliveries()
    done = result(
        staged.manifest,
        staged.folder.manifest_url,
        receipt,
        extra_deliveries=extra_deliveries,
        reused=staged.reused,
        rerun=staged.rerun,
    )
    tell_assets(context, outlets, done)
    tell_tables(context, done)
    return done


def report(
    staged: Staged,
    done: Mapping[str, Any],
    since: datetime,
    context: Context,
    notifiers: Sequence[Any],
) -> None:
    """Log and measure what a run has cost, and where its position stands; call the notifiers.

    :param done: the task's result.
    :param since: begin of the task; an earlier try's commit is not measured again.
    """
    try:
        position = stores.read(staged.store)
    except SfEventsError as error:
        log.warning("The position could not be read after its commit: %s", error)
        return
    if position is None or not position.recent or staged.rerun:
        return
    made, extra_deliveries = position.recent[-1], done["extra_deliveries"]
    if made.batch_id == staged.manifest.batch_id and datetime.fromisoformat(made.at) >= since:
        emit(of_commit(position, made, extra_deliveries))
        log.info("%s.", summary(position, made, extra_deliveries, datetime.now(UTC)))
        for notice in notices(done):
            notify(notifiers, dict(context), notice)


def notices(done: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a user's notifiers are told of a batch: loss windows, events in quarantine.

    :param done: the task's result.
    """
    names = ("org_id", "consumer", "topic", "batch_id", "events", "quarantined", "losses")
    values = {name: done[name] for name in names}
    found = []
    if done["losses"]:
        count = counted(len(done["losses"]), "loss window")
        found.append(
            {
                "kind": "loss_window",
                **values,
                "seen": f"Batch {done['batch_id']} has {count}: events may have been missed.",
                "remedy": of_loss_window(done["topic"]),
            }
        )
    if done["quarantined"]:
        count = counted(done["quarantined"], "event")
        found.append(
            {
                "kind": "quarantine",
                **values,
                "seen": f"{count} of batch {done['batch_id']} did not decode.",
                "remedy": QUARANTINE,
            }
        )
    return found


def tell_error(staged: Staged) -> None:
    """Report an error that ended the fetch, after the commit: a warning if the error passes.

    :raises AirflowFailException: the error does not pass; the next run would meet it, too.
    """
    manifest = staged.manifest
    if not manifest.error or staged.rerun:
        return
    if manifest.ended_by == "lost":
        log.warning(
            "Salesforce was not available when the fetch ended, so more events may be pending; the "
            "next run fetches them. %s",
            manifest.error,
        )
        return
    raise AirflowFailException(
        f"The batch ({counted(manifest.events, 'event')}) is landed and committed, but the fetch "
        f"ended with an error: {manifest.error} Airflow tells the assets of a task that succeeds "
        "only: clear this task to start the DAGs that wait for them; it fetches nothing again."
    )


def require_committed(fetched: Mapping[str, Any], store: PositionStore) -> None:
    """Check that a batch that is no longer staged was committed before.

    A retried commit finds its batch swept if later runs have committed theirs in the meantime.

    :raises StagingError: the position is not beyond it.
    """
    position = stores.read(store)
    epoch = str(fetched["batch_id"]).rpartition("-")[0]
    if (
        position is None
        or position.epoch != epoch
        or position.batch_number < fetched["batch_number"]
    ):
        raise StagingError(
            f"No batch is staged at {fetched['manifest']}, and {store.where} has not passed batch "
            f"{fetched['batch_id']}. It was removed, or `staging` is not that of the fetch."
        )
    log.info(
        "Batch %s was committed and swept before; there is nothing to do.", fetched["batch_id"]
    )


def require_result(batch: Any) -> dict[str, Any]:
    """Check that a value is the result of an SfEventsFetchOperator, and return it.

    :raises ConfigurationError: it is not.
    """
    if (
        isinstance(batch, dict)
        and {"org_id", "manifest", "events", "reused", "rerun"} <= batch.keys()
    ):
        return batch
    raise ConfigurationError(
        f"batch={batch!r} is not the result of an SfEventsFetchOperator; give `fetch.output`."
    )
