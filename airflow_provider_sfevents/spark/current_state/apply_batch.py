"""Applying a landed batch: events are sorted, folded into records, and written table by table.

The order of effects, each of which may be the last one before a kill: 1. the run takes the tables,
while the batch lands; 2. everything is read and decided: about few events while their rows are
being committed to the event tables, about many once they are there, with outcomes in a folder of
the run's own; once the batch has landed, new identities go to `seen`, where they count once the
batch is applied; 3. columns' types are recorded, tables made or widened; 4. one commit for each
table, in the order of `changes.tables.APPLY_ORDER`; 5. the folder goes. A run after a job that died
repeats all of it, with the same result. Of two concurrent runs the one that began first gives way
(`apply_run`).
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLandedError, PositionConflictError, StagingError
from airflow_provider_sfevents.spark.changes.order import before_batch
from airflow_provider_sfevents.spark.changes.source import (
    Admission,
    ChangeBatch,
    ChangeSource,
    admit,
    check_deletions,
)
from airflow_provider_sfevents.spark.changes.transactions import SILENCE
from airflow_provider_sfevents.spark.current_state.apply_events import (
    Decisions,
    EntityLayouts,
    Started,
    apply_events,
    deciding,
    layout_of,
    standing,
    take_tables,
)
from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
from airflow_provider_sfevents.spark.current_state.intake.event_intake import Arrived
from airflow_provider_sfevents.spark.current_state.intake.landed_events import (
    LandedEvents,
    entity_columns,
)
from airflow_provider_sfevents.spark.current_state.state_tables import open_state, progress_of
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.staged_batch import ensure_staged
from airflow_provider_sfevents.spark.side_by_side import beside
from airflow_provider_sfevents.spark.tables.type_records import ColumnsMovedError, TypeRecords
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.changes.source import Progress
    from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables
    from airflow_provider_sfevents.spark.landing.landed_batch import LandedBatch
    from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
    from airflow_provider_sfevents.spark.stores.object_files import Stores

logger = logging.getLogger(__name__)

_PLANS = 10


def land_and_apply(
    spark: SparkSession,
    landing: LandingOptions,
    options: ApplyOptions,
    stores: Stores | None = None,
) -> Receipt:
    """Land a batch in the event tables, apply it to the current-state tables, write the receipt.

    A second apply changes nothing.

    :param stores: as of `Files`.
    :returns: the receipt; its `applied` counts what became of events (`applied`, `kept`,
        `repeated`, `unapplied`, `old`, `contained`), the events that are held back, and the
        records and entities that are marked now.
    :raises NotLandedError: another form of the batch has landed, not the one staged here; nothing
        is applied.
    :raises PositionConflictError: the tables are fed by another source, batches before this one are
        missing, or another job is at work.
    :raises StagingError: the batch is not whole.
    :raises ConfigurationError: something that was asked for cannot be.
    """
    if options.flush:
        return _flush(spark, options, stores)
    state = open_state(spark, options, stores)
    with ExitStack() as runs:
        start = partial(_started, runs, state, options)
        # A thread that decides ends before the run, whose folder it writes to.
        with beside(start) as beginning, ExitStack() as threads:
            decided: Decisions | None = None

            def decide(landed: LandedBatch) -> None:
                nonlocal decided
                decided = threads.enter_context(
                    deciding(beginning, partial(_read, landed, options))
                )

            def apply(receipt: Receipt, landed: LandedBatch) -> Receipt:
                started, staged = beginning.result(), landed.staged.manifest
                _check_form(receipt, batch_of(staged), staged.events)
                _check_form(receipt, started.batch, started.arrived.number)
                first: Future[Started] | None = beginning
                if landed.gave_way and started.admission.kind != "rerun":
                    # What was decided may be about other rows than those that have landed.
                    threads.close()
                    # The attempt that landed may be applying them by now.
                    started.run.ensure_writer()
                    first = None
                counts = _applied(landed, state, options, first, decided, start)
                return replace(receipt, applied=counts)

            return land(spark, landing, rows_found=decide, finish=apply, stores=stores)


def _check_form(receipt: Receipt, batch: ChangeBatch, events: int) -> None:
    """Check that a form of the batch that was read here is the one that has landed.

    :param events: their number in the form that was read.
    :raises NotLandedError: it is not.
    """
    if (receipt.end or batch.end, receipt.events) != (batch.end, events):
        raise NotLandedError(
            f"Another form of batch {receipt.batch_id} has landed: it ends at {receipt.end}, "
            f"and the one that is staged here at {batch.end}. It was fetched where the "
            "staging area is another one, and is to be applied from there. Nothing of this "
            "form was applied; give all workers one staging area."
        )


def _flush(spark: SparkSession, options: ApplyOptions, stores: Stores | None) -> Receipt:
    """Flush the open transaction, and add the result to the batch's receipt.

    :raises NotLandedError: the batch has no receipt.
    """
    files = Files(spark, stores)
    ensure_staged(files, options.manifest_url)
    manifest = Manifest.from_json(files.read_text(options.manifest_url), options.manifest_url)
    url = f"{options.manifest_url.rpartition('/')[0]}/{layout.RECEIPT}"
    if not files.exists(url):
        raise NotLandedError(
            f"There is no receipt at {url}: the batch has not landed, so nothing of it can be held."
        )
    before = Receipt.from_json(files.read_text(url), url)
    counts = flush_transaction(spark, options, manifest, stores)
    receipt = replace(
        before,
        applied={**(before.applied or {}), **counts},
        written_at=datetime.now(UTC).isoformat(),
    )
    files.write_staged(url, receipt.to_json())
    return receipt


def flush_transaction(
    spark: SparkSession, options: ApplyOptions, manifest: Manifest, stores: Stores | None = None
) -> dict[str, int]:
    """Flush a batch's open transaction after silence; no event is read.

    :returns: counts, as of `land_and_apply`, whose errors can be raised here, too.
    :raises PositionConflictError: the batch has not been applied.
    """
    began = time.monotonic()
    state = open_state(spark, options, stores)
    batch = batch_of(manifest)
    with _run(state, options) as run:
        progress, admission = _admitted(run, batch)
        if progress is None or admission.kind != "rerun":
            raise PositionConflictError(
                f"Batch {batch.epoch}-{batch.batch_number} of {batch.source} has not been applied "
                "yet, so it has no open transaction to flush. Apply it first."
            )
        if (progress.epoch, progress.batch_number) == (batch.epoch, batch.batch_number):
            counts = _flushed(run, batch, progress)
        else:
            counts = standing(run, batch)
    _log_counts(batch, counts, began)
    return counts


def _run(state: StateTables, options: ApplyOptions) -> ApplyRun:
    return ApplyRun(
        state,
        deletions=options.deletions,
        new_entities=options.new_entities,
        history=options.history,
    )


def _admitted(run: ApplyRun, batch: ChangeBatch) -> tuple[Progress | None, Admission]:
    progress = progress_of(run.progress)
    admission = admit(progress, batch)
    check_deletions(progress, run.deletions)
    return progress, admission


def _started(runs: ExitStack, state: StateTables, options: ApplyOptions) -> Started:
    """Begin the apply of a batch, for which it need not have landed.

    :param runs: ends the run.
    """
    url = options.manifest_url
    manifest = Manifest.from_json(state.files.read_text(url), url)
    batch = batch_of(manifest)
    run = runs.enter_context(_run(state, options))
    _, admission = _admitted(run, batch)
    arrived = Arrived(state, manifest.events, f"{run.folder}/arrived", manifest.bytes)
    if admission.kind == "rerun":
        return Started(run=run, batch=batch, admission=admission, arrived=arrived, entries={})
    return take_tables(run, batch, admission, arrived)


def batch_of(manifest: Manifest) -> ChangeBatch:
    """Read the facts that an apply needs from a manifest."""
    return ChangeBatch(
        source=ChangeSource(
            org_id=manifest.org_id, consumer=manifest.consumer, topic=manifest.topic
        ),
        epoch=manifest.epoch,
        batch_number=manifest.batch_number,
        start=manifest.start,
        end=manifest.end or manifest.start,
        ended_by=manifest.ended_by,
        opened_at=datetime.fromisoformat(manifest.created_at),
        losses=tuple(
            f"events after {one.after or 'the beginning'} may be lost: {one.why}"
            for one in manifest.losses
        ),
    )


def _applied(
    landed: LandedBatch,
    state: StateTables,
    options: ApplyOptions,
    begun: Future[Started] | None,
    decided: Decisions | None,
    start: Callable[[], Started],
) -> dict[str, int]:
    """Apply a batch; start again if another job has recorded columns meanwhile.

    :param begun: the run to go on with; None: it begins here.
    :param decided: about the run that has begun; None: nothing is read yet.
    """
    began = time.monotonic()
    for _ in range(_PLANS):
        with ExitStack() as stack:
            if begun is None:
                begun, decided = stack.enter_context(beside(start)), None
            if decided is None:
                decided = stack.enter_context(deciding(begun, partial(_read, landed, options)))
            try:
                counts = apply_events(decided)
            except ColumnsMovedError as moved:
                logger.info("%s The batch is planned anew.", moved)
                state.types = TypeRecords(state.files, state.root)
                begun = None
            else:
                _log_counts(begun.result().batch, counts, began)
                return counts
    raise StagingError(
        f"The columns of the tables of {options.current_state} kept being recorded anew by other "
        "jobs. Run the task again; one job at a time "
        "may write them."
    )


def _read(landed: LandedBatch, options: ApplyOptions, started: Started) -> EntityLayouts:
    """Read the batch's events, by the columns that the entities' tables will have."""
    run, batch = started.run, started.batch
    evolutions, ways = entity_columns(run.state, landed, options.on_type_change)
    events = LandedEvents(
        spark=run.state.spark,
        landed=landed,
        place=before_batch(started.admission.generation, batch.batch_number),
        ways=ways,
        few=started.arrived.few,
    )
    started.arrived.find(events.sources())
    return EntityLayouts(
        layouts={name: layout_of(one.after.columns) for name, one in evolutions.items()},
        record=partial(run.state.types.keep, evolutions),
    )


def _flushed(run: ApplyRun, batch: ChangeBatch, progress: Progress) -> dict[str, int]:
    """Flush the open transaction, because silence came after the batch."""
    silent = ChangeBatch(
        source=batch.source,
        epoch=batch.epoch,
        batch_number=batch.batch_number,
        start=progress.end,
        end=progress.end,
        ended_by=SILENCE,
        opened_at=batch.opened_at,
    )
    again = Admission(kind="next", generation=progress.generation)
    nothing = Arrived(run.state, 0, f"{run.folder}/arrived")
    start = partial(take_tables, run, silent, again, nothing)
    with beside(start) as begun, deciding(begun, lambda _: EntityLayouts(layouts={})) as decided:
        return apply_events(decided)


def _log_counts(batch: ChangeBatch, counts: Mapping[str, int], began: float) -> None:
    said = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    logger.info(
        "Batch %s applied in %.1f s: %s.",
        f"{batch.epoch}-{batch.batch_number}",
        time.monotonic() - began,
        said or "nothing to do",
    )
