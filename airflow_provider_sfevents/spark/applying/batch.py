"""Applying a staged batch: events are sorted, folded into records, and written table by table.

The order of effects, each of which may be the last one before a kill: 1. everything is read and decided, and outcomes are written into a
folder of the run's own; 2. columns' types are recorded, tables made or widened; 3. one commit for each table, in the order of
`changes.tables.APPLY_ORDER`; 4. the folder goes. Whoever is run again after a job that died does all of it anew, and comes to the same end.

One job at a time may write. A run begins by removing the folders of others: a twin that is still at work finds its own gone before its next
commit, and gives way. `applied_through` moves only from what it said when the run began.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflict, StagingError
from airflow_provider_sfevents.spark.applying.applied import (
    apply_events,
    layout_of,
    standing,
)
from airflow_provider_sfevents.spark.applying.arrivals import Arrived
from airflow_provider_sfevents.spark.applying.events import (
    EVENTS_SQL,
    Reading,
    decoded_events,
    entity_of,
    undecodable_events,
)
from airflow_provider_sfevents.spark.applying.places import open_state, progress_of
from airflow_provider_sfevents.spark.applying.run import begun
from airflow_provider_sfevents.spark.changes.source import (
    Admission,
    Batch,
    Source,
    admit,
    check_deletions,
)
from airflow_provider_sfevents.spark.changes.transactions import SILENCE
from airflow_provider_sfevents.spark.decimals import read_decimals
from airflow_provider_sfevents.spark.decoding import has_accelerator
from airflow_provider_sfevents.spark.landing_steps import no_step
from airflow_provider_sfevents.spark.staged import open_batch
from airflow_provider_sfevents.spark.tables.type_records import ColumnsMoved, TypeRecords
from airflow_provider_sfevents.staging.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.applying.ordering import ApplyOrder
    from airflow_provider_sfevents.spark.applying.places import StateTables
    from airflow_provider_sfevents.spark.applying.run import Run
    from airflow_provider_sfevents.spark.landing_steps import Step
    from airflow_provider_sfevents.spark.recorded import Recorded
    from airflow_provider_sfevents.spark.staged import StagedBatch

logger = logging.getLogger(__name__)

_PLANS = 10


def apply_batch(spark: SparkSession, order: ApplyOrder, step: Step = no_step) -> dict[str, int]:
    """Apply a batch to the current-state tables; again, and nothing changes.

    :param step: called before and after each commit; killers and twins of tests come in there.
    :returns: what became of events (`applied`, `kept`, `repeated`, `unapplied`, `old`, `contained`), how many are `held`, and how many
        records and entities are marked now.
    :raises PositionConflict: the tables are fed by another source, batches before this one are missing, or another job is at work.
    :raises StagingError: the batch is not whole.
    :raises ConfigurationError: something that was asked for cannot be.
    """
    began = time.monotonic()
    state = open_state(spark, order.current_state, order.table_format, order.landing_folder)
    manifest = Manifest.from_json(state.files.read_text(order.manifest_url), order.manifest_url)
    batch = batch_of(manifest)
    for _ in range(_PLANS):
        try:
            with begun(
                state,
                deletions=order.deletions,
                new_entities=order.new_entities,
                history=order.history,
                step=step,
            ) as run:
                counts = _applied(run, batch, order)
        except ColumnsMoved as moved:
            logger.info("%s The batch is planned anew.", moved)
            state.types = TypeRecords(state.files, state.root)
        else:
            said = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
            logger.info(
                "Batch %s applied in %.1f s: %s.",
                manifest.batch_id,
                time.monotonic() - began,
                said or "nothing to do",
            )
            return counts
    raise StagingError(
        f"The columns of the tables of {order.current_state} kept being recorded anew by other jobs. Run the task again; one job at a time "
        "may write them."
    )


def batch_of(manifest: Manifest) -> Batch:
    """What a manifest says that matters to apply."""
    return Batch(
        source=Source(org_id=manifest.org_id, consumer=manifest.consumer, topic=manifest.topic),
        epoch=manifest.epoch,
        sequence=manifest.sequence,
        start=manifest.start,
        end=manifest.end or manifest.start,
        ended_by=manifest.ended_by,
        opened_at=datetime.fromisoformat(manifest.created_at),
        losses=tuple(
            f"events after {one.after or 'the beginning'} may be lost: {one.why}"
            for one in manifest.losses
        ),
    )


def _applied(run: Run, batch: Batch, order: ApplyOrder) -> dict[str, int]:
    progress = progress_of(run.progress)
    admission = admit(progress, batch)
    check_deletions(progress, run.deletions)
    if order.settle:
        return _settled(run, batch, admission)
    if admission.kind == "again":
        return standing(run, batch)
    staged = _opened(run.state, order)
    layouts = {entity_of(kind.name): layout_of(kind.columns) for kind in staged.plan.types}
    reading = Reading(generation=admission.generation, sequence=batch.sequence)
    events = _events(run.state, staged, reading)
    arrived = Arrived(run.state, events, staged.manifest.events, f"{run.folder}/arrived")
    return apply_events(
        run, batch, admission, arrived, layouts, before=partial(_record, run.state, staged)
    )


def _settled(run: Run, batch: Batch, admission: Admission) -> dict[str, int]:
    """Release what the batch left held: silence came after it.

    :raises PositionConflict: the batch has not been applied.
    """
    progress = progress_of(run.progress)
    if progress is None or admission.kind != "again":
        raise PositionConflict(
            f"Batch {batch.epoch}-{batch.sequence} of {batch.source} has not been applied yet, so nothing of it can be held. Apply it first."
        )
    if (progress.epoch, progress.sequence) != (batch.epoch, batch.sequence):
        return standing(run, batch)
    silent = Batch(
        source=batch.source,
        epoch=batch.epoch,
        sequence=batch.sequence,
        start=progress.end,
        end=progress.end,
        ended_by=SILENCE,
        opened_at=batch.opened_at,
    )
    again = Admission(kind="next", generation=progress.generation)
    nothing = Arrived(run.state, [_no_events(run.state)], 0, f"{run.folder}/arrived")
    return apply_events(run, silent, again, nothing, {})


def _opened(state: StateTables, order: ApplyOrder) -> StagedBatch:
    """The batch, planned with the columns of the entities' tables."""

    def recorded(event_type: str) -> Recorded:
        if not entity_of(event_type):
            raise ConfigurationError(
                f"{order.manifest_url} holds events of {event_type}, which are no change events: they tell nothing about records. Land them "
                "without current_state, or take them out of the channel."
            )
        return state.types(entity_of(event_type))

    return open_batch(
        state.spark,
        state.files,
        order.manifest_url,
        recorded=recorded,
        decimals=read_decimals(order.decimals),
        on_type_change=order.on_type_change,
        accelerated=has_accelerator(state.spark),
    )


def _events(state: StateTables, staged: StagedBatch, reading: Reading) -> list[DataFrame]:
    """Decoded events; and, to be asked only where there are some, those that cannot be decoded."""
    decoded = [
        staged.decoded(state.spark, kind, keep_payload=False).mapInArrow(
            partial(decoded_events, reading, entity_of(kind.name)), EVENTS_SQL
        )
        for kind in staged.plan.types
    ]
    schemas = dict(staged.plan.schemas)
    broken = staged.undecodable(state.spark).mapInArrow(
        partial(undecodable_events, reading, schemas), EVENTS_SQL
    )
    good = reduce(lambda one, other: one.unionAll(other), decoded, _no_events(state))
    return [good, broken]


def _no_events(state: StateTables) -> DataFrame:
    return state.spark.createDataFrame([], EVENTS_SQL)


def _record(state: StateTables, staged: StagedBatch) -> None:
    state.types.keep({entity_of(name): one for name, one in staged.plan.evolutions.items()})
