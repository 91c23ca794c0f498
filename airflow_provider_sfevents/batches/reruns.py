"""Reruns: a cleared task, a retry after a commit, a backfill. Pure decisions on values.

1. A run that has staged or committed a batch gets that batch again, and no other one: landing
   replaces its rows, the position stays.
2. A backfill gets the batch of its interval, whichever run staged it.
3. If that batch is gone (swept), or never existed, the run is refused. Live events are never
   fetched for a past interval: they would land under a date that is not theirs, and the run that
   they belong to would find none.

A retry that has no batch yet is not a rerun: it does what its first try would have done.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import PositionConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.manifest import Manifest, Run


def may_own_a_batch(request: BatchRequest) -> bool:
    """Return whether this run may have had a batch; a first try, the usual case, has none."""
    return request.cleared or request.backfill or request.run.try_number > 1


def find_own(
    request: BatchRequest, position: Position | None, manifests: Iterable[Manifest], where: str
) -> Manifest | None:
    """Return the batch of a rerun; None: the run takes the next batch, as any other.

    :param manifests: all that are kept of the topic, newest first.
    :raises PositionConflictError: a rerun whose batch is gone.
    """
    manifest = own_batch(request, position, manifests)
    if manifest is None:
        refuse_past(request, position, where)
    return manifest


def own_batch(
    request: BatchRequest, position: Position | None, manifests: Iterable[Manifest]
) -> Manifest | None:
    """Return the batch this run had, if the position is at its end, beyond it, or in another epoch.

    :param manifests: all that are kept of the topic, newest first.
    """
    past = [one for one in manifests if _is_past(one, position)]
    committed = _committed_by_run(request.run, position)
    of_run = (
        one
        for one in past
        if one.batch_id in committed
        or (_may_be_of(one.run, request) and one.run.run == request.run.run)
    )
    of_interval = (
        one
        for one in past
        if request.backfill
        and _may_be_of(one.run, request)
        and _same_interval(one.run, request.run)
    )
    return next(of_run, None) or next(of_interval, None)


def refuse_past(request: BatchRequest, position: Position | None, where: str) -> None:
    """Keep a rerun whose batch is gone from fetching live events.

    :raises PositionConflictError: the run is a backfill, or was cleared after a later run has
        committed.
    """
    run = request.run
    if request.backfill:
        raise PositionConflictError(
            f"Run {run.run} is a backfill, and no batch of its interval ({_interval(run)}) is kept "
            "in the staging area: it was swept (`keep_batches`), or the interval never had one. A "
            "backfill lands again what its interval had staged; it never fetches live events, "
            "which belong to the next scheduled run. The position stays. To fetch again what the "
            "bus still holds, use a `consumer` of its own and a table of its own."
        )
    if request.cleared and position is not None and _is_before_last_commit(run, position):
        last = position.committed_by
        raise PositionConflictError(
            f"Run {run.run} was cleared, but run {last.run} has committed since, and the batch of "
            f"{run.run} is not in the staging area any more (swept, see `keep_batches`), or it "
            f"never had one. Live events are not fetched for a past run; {where} stays. Mark the "
            "task as success; new events come with the next run, or with one that you trigger."
        )


def _is_past(manifest: Manifest, position: Position | None) -> bool:
    return (
        position is None
        or manifest.epoch != position.epoch
        or manifest.batch_number <= position.batch_number
    )


def _committed_by_run(run: Run, position: Position | None) -> set[str]:
    """Return the ids of the batches that this run committed, which another run may have staged."""
    if position is None or position.committed_by.dag != run.dag:
        return set()
    return {commit.batch_id for commit in position.recent if run.run and commit.run == run.run}


def _is_before_last_commit(run: Run, position: Position) -> bool:
    """Return whether the run comes before the last committed one, as the scheduler orders runs.

    False if the position was written by hand or by another DAG.
    """
    last = position.committed_by
    if last.dag != run.dag or last.run == run.run:
        return False
    if not run.run_after or not last.run_after:
        return False
    return datetime.fromisoformat(run.run_after) < datetime.fromisoformat(last.run_after)


def _same_interval(one: Run, other: Run) -> bool:
    return bool(one.data_interval_end) and (one.data_interval_start, one.data_interval_end) == (
        other.data_interval_start,
        other.data_interval_end,
    )


def _may_be_of(run: Run, request: BatchRequest) -> bool:
    """Return whether the requesting task may have staged the batch of `run`.

    A wait stages for the tasks of its own DAG.
    """
    if not request.owns:
        return run.dag == request.run.dag
    return _task(run) == _task(request.run)


def _interval(run: Run) -> str:
    return (
        f"{run.data_interval_start} to {run.data_interval_end}" if run.data_interval_end else "none"
    )


def _task(run: Run) -> tuple[str, str]:
    # Without the map index: a topic's folder has one mapped task per run, and the list of topics
    # may be put in another order.
    return run.dag, run.task
