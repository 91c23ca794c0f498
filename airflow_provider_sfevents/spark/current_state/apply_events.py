"""Apply a batch's events: the driver sorts and plans, executors fold, tables are committed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.changes import progress_text, tables
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.changes.plan import ApplyPlan, check_first_batch, plan_batch
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.fold_records import (
    Folding,
    folded,
    outcome_columns,
)
from airflow_provider_sfevents.spark.current_state.frames import acted
from airflow_provider_sfevents.spark.current_state.intake.event_intake import (
    new_identities,
    open_conditions,
    open_transaction,
    released_events,
    touched,
)
from airflow_provider_sfevents.spark.current_state.intake.seen_identities import see
from airflow_provider_sfevents.spark.current_state.known_records import known
from airflow_provider_sfevents.spark.current_state.state_commits import (
    Commits,
    EntityOutcomes,
    count_outcomes,
)
from airflow_provider_sfevents.spark.current_state.state_tables import progress_of
from airflow_provider_sfevents.spark.side_by_side import beside
from airflow_provider_sfevents.spark.tables.sessions import few_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.entity import EntityState
    from airflow_provider_sfevents.spark.changes.source import Admission, ChangeBatch
    from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
    from airflow_provider_sfevents.spark.current_state.intake.event_intake import Arrived
    from airflow_provider_sfevents.spark.current_state.intake.event_order import Ordered
    from airflow_provider_sfevents.spark.current_state.state_tables import EntityResync
    from airflow_provider_sfevents.spark.schema.field_types import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that has taken the tables, and what it has read; nothing if it has nothing to apply.

    :param admission: by `source.admit`.
    :param entries: the resync entries.
    """

    run: ApplyRun
    batch: ChangeBatch
    admission: Admission
    arrived: Arrived
    entries: Mapping[str, EntityResync]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLayouts:
    """Columns of the entities that a batch has events of, as their tables will be.

    :param record: records them; called before tables of records are made or changed.
    """

    layouts: Mapping[str, Layout]
    record: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """A batch's events in order, and what follows for their entities.

    :param record: as of `EntityLayouts`.
    :param layouts: of all entities that have events or an entry.
    """

    record: Callable[[], None]
    order: Ordered
    states: Mapping[str, EntityState]
    layouts: Mapping[str, Layout]
    plan: ApplyPlan
    released: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Decisions about a batch's events, which a thread finds (`deciding`).

    :param begun: as of `deciding`.
    :param sorting: its result comes first; None if the batch was applied before.
    :param folding: the outcomes of the sorted events, by entity.
    :param settings: of the tables' session while it decides; closed once it has ended.
    """

    begun: Future[Started]
    sorting: Future[_Sorted | None]
    folding: Future[list[EntityOutcomes]]
    settings: ExitStack


def take_tables(
    run: ApplyRun, batch: ChangeBatch, admission: Admission, arrived: Arrived
) -> Started:
    """Take the tables, and read of them what needs no event of the batch.

    :param admission: by `source.admit`; the batch is the next one.
    """
    progress = progress_of(run.progress)
    check_first_batch(progress, batch, run.new_entities)
    run.take()
    with beside(run.state.entries) as reading:
        arrived.read_held((admission.generation, batch.batch_number), progress)
    return Started(
        run=run,
        batch=batch,
        admission=admission,
        arrived=arrived,
        entries=reading.result(),
    )


@contextmanager
def deciding(
    begun: Future[Started], read: Callable[[Started], EntityLayouts]
) -> Iterator[Decisions]:
    """Decide about a batch's events in a thread while the block runs.

    Tables are read alone; what is written are files of the run. An error is one of the futures'
    results, and the block's to raise.

    :param read: finds the events (`Arrived.find`), and returns their entities' columns.
    """
    with ExitStack() as settings, ThreadPoolExecutor(1) as pool:
        sorting = pool.submit(copy_context().run, _sort, begun, read, settings)
        folding = pool.submit(copy_context().run, _fold_all, begun, sorting)
        try:
            yield Decisions(begun=begun, sorting=sorting, folding=folding, settings=settings)
        except BaseException:
            folding.cancel()
            raise


def _sort(
    begun: Future[Started], read: Callable[[Started], EntityLayouts], settings: ExitStack
) -> _Sorted | None:
    started = begun.result()
    if started.admission.kind == "rerun":
        return None
    own = read(started)
    run, batch, arrived = started.run, started.batch, started.arrived
    settings.enter_context(few_rows(run.state.spark, few=arrived.few))
    progress = progress_of(run.progress)
    order = arrived.sort(batch.ended_by, progress)
    states = state_tables.entity_states(run.entities, started.entries)
    recorded = (order.summary.first_at.keys() | states.keys()) - own.layouts.keys()
    layouts = {**own.layouts, **{entity: recorded_layout(run, entity) for entity in recorded}}
    plan = plan_batch(
        progress,
        batch,
        started.admission,
        order.summary,
        states,
        layouts,
        new_entities=run.new_entities,
    )
    if any(one.prefix_updates for one in plan.entities.values()):
        # A change of all records of a prefix may touch many records.
        settings.close()
    return _Sorted(
        record=own.record,
        order=order,
        states=states,
        layouts=layouts,
        plan=plan,
        released=released_events(arrived, order),
    )


def apply_events(decided: Decisions) -> dict[str, int]:
    """Apply a batch's events as is decided about them; the batch has landed.

    :returns: counts, as of `land_and_apply`.
    """
    started, found = decided.begun.result(), decided.sorting.result()
    run, batch, arrived = started.run, started.batch, started.arrived
    if found is None:
        return standing(run, batch)
    state, plan, order = run.state, found.plan, found.order
    if order.identified:
        rows = new_identities(found.released, arrived, order)
        see(run, batch, progress_of(run.progress), rows)
    outcomes = decided.folding.result()
    decided.settings.close()
    run.ensure_writer()
    found.record()
    for one in outcomes:
        state.make_entity(one.entity, one.folding.layout, history=run.history)
    commits = _commits(run, plan, found.states, outcomes)
    commits.open_transaction(open_transaction(run, arrived, order))
    new = {entity: None for entity in plan.entities if entity not in run.entities}
    after = replace(plan.progress, open_from=order.open_from, deletions=run.deletions)
    commits.add("applied_through", partial(run.advance, progress_text.to_text(after), new))
    written = commits.run()
    return {
        **_counts(outcomes),
        "open_events": order.open_events,
        "repeated": order.repeated,
        **entries_left(state.entries() if state_tables.RESYNC in written else started.entries),
    }


def _commits(
    run: ApplyRun,
    plan: ApplyPlan,
    states: Mapping[str, EntityState],
    found: Sequence[EntityOutcomes],
) -> Commits:
    """Collect the commits that follow from the plan and the folded records."""
    commits = Commits(run, found, tables.APPLY_ORDER)
    commits.of_records()
    commits.kept({entity: wide.kept for entity, wide in plan.entities.items()})
    commits.resync(
        {
            entity: wide.state.entry
            for entity, wide in plan.entities.items()
            if wide.state.entry is not None
            and wide.state.entry != (states[entity].entry if entity in states else None)
        },
        gone={},
    )
    commits.unapplied([one for wide in plan.entities.values() for one in wide.quarantined])
    return commits


def standing(run: ApplyRun, batch: ChangeBatch) -> dict[str, int]:
    """Return the counts for a batch that was applied before."""
    progress = progress_of(run.progress)
    of_batch = batch.epoch, batch.batch_number
    open_events = 0
    if progress is not None and (progress.epoch, progress.batch_number) == of_batch:
        is_open, _ = open_conditions((progress.generation, progress.batch_number), progress)
        open_events = run.state.set_aside(tables.OPEN_TRANSACTION).where(is_open).count()
    return {
        **_counts([]),
        "open_events": open_events,
        "repeated": 0,
        **entries_left(run.state.entries()),
    }


def recorded_layout(run: ApplyRun, entity: str) -> Layout:
    """The columns of an entity's table that come from fields."""
    return layout_of(run.state.types(entity).columns)


def layout_of(columns: Iterable[Column]) -> Layout:
    """Return the columns of an entity's table: those of its event type without the header."""
    return Layout(columns=tuple(one for one in columns if one.field != HEADER))


def _fold_all(begun: Future[Started], sorting: Future[_Sorted | None]) -> list[EntityOutcomes]:
    found = sorting.result()
    if found is None:
        return []
    started = begun.result()
    folds = (_folded(started, found, entity) for entity in sorted(found.plan.entities))
    with started.run.giving_way():
        return [one for one in folds if one is not None]


def _folded(started: Started, found: _Sorted, entity: str) -> EntityOutcomes | None:
    """Fold an entity's events into its records; None if no record is touched."""
    run, wide = started.run, found.plan.entities[entity]
    if entity not in found.order.summary.first_at and not wide.prefix_updates:
        return None
    own = touched(run.state.spark, started.arrived, found.released, entity)
    folding = Folding(
        layout=found.layouts[entity],
        deletions=run.deletions,
        entry=wide.state.entry,
        prefix_updates=wide.prefix_updates,
        history=run.history,
        fields=own.fields.union(*(one.fields for one in wide.prefix_updates)),
    )
    prefixes = sorted({one for change in wide.prefix_updates for one in change.addressed.prefixes})
    few = own.ids is not None and not prefixes
    rows = acted(
        run.state.spark,
        known(run.state, entity, own, folding, started.entries, prefixes=prefixes),
        partial(folded, folding, found.plan.progress, wide.state.read_at),
        outcome_columns(folding),
        f"{run.folder}/{entity}",
        few=few,
    )
    return EntityOutcomes(
        entity=entity, folding=folding, rows=rows, counts=count_outcomes(rows), few=few
    )


def _counts(found: Sequence[EntityOutcomes]) -> dict[str, int]:
    """Count the results of events, one for each record that an event names."""
    done: Counter[str] = Counter()
    for one in found:
        done.update(one.counts)
    return {
        "applied": done["applied"] + done["deleted"],
        "kept": done["kept"],
        "unapplied": done["quarantined"],
        "old": done["old"],
        "contained": done["contained"],
    }


def entries_left(entries: Mapping[str, EntityResync]) -> dict[str, int]:
    """Count the resync entries."""
    return {
        "resync_records": sum(one.records for one in entries.values()),
        "resync_entities": sum(one.whole is not None for one in entries.values()),
    }
