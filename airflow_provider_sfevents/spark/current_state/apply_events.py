"""Apply a batch's events: the driver sorts and plans, executors fold, tables are committed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.changes import progress_text, tables
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.changes.plan import ApplyPlan, check_first_batch, plan_batch
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.fold_records import Folding, folded, outcome_sql
from airflow_provider_sfevents.spark.current_state.frames import acted
from airflow_provider_sfevents.spark.current_state.intake.event_intake import (
    new_identities,
    open_conditions,
    open_transaction,
    released_events,
)
from airflow_provider_sfevents.spark.current_state.intake.seen_identities import see
from airflow_provider_sfevents.spark.current_state.known_records import known
from airflow_provider_sfevents.spark.current_state.state_commits import (
    Commits,
    EntityOutcomes,
    commit,
    count_outcomes,
)
from airflow_provider_sfevents.spark.current_state.state_tables import progress_of
from airflow_provider_sfevents.spark.side_by_side import beside
from airflow_provider_sfevents.spark.tables.sessions import few_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_provider_sfevents.spark.changes.entity import EntityState
    from airflow_provider_sfevents.spark.changes.source import Admission, ChangeBatch, Progress
    from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
    from airflow_provider_sfevents.spark.current_state.intake.event_intake import Arrived, Released
    from airflow_provider_sfevents.spark.current_state.intake.event_order import Ordered
    from airflow_provider_sfevents.spark.current_state.state_tables import (
        EntityResync,
        StateTables,
    )
    from airflow_provider_sfevents.spark.schema.field_types import Column


def take_tables(
    run: ApplyRun, batch: ChangeBatch, admission: Admission, arrived: Arrived
) -> Mapping[str, EntityResync]:
    """Take the tables, and read of them what needs no event of the batch.

    :param admission: by `source.admit`; the batch is the next one.
    :returns: the resync entries.
    """
    progress = progress_of(run.progress)
    check_first_batch(progress, batch, run.new_entities)
    run.take()
    with beside(run.state.entries) as reading:
        arrived.read_held((admission.generation, batch.batch_number), progress)
    return reading.result()


def apply_events(
    run: ApplyRun,
    batch: ChangeBatch,
    admission: Admission,
    arrived: Arrived,
    entries: Mapping[str, EntityResync],
    layouts: Mapping[str, Layout],
    *,
    before: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Apply a batch's events, which are found (`Arrived.find`).

    :param entries: by `take_tables`.
    :param layouts: of the entities that the batch has events of, as their tables will be; of others
        the recorded columns count.
    :param before: called before tables of records are made or changed.
    """
    state = run.state
    progress = progress_of(run.progress)
    with few_rows(state.spark, few=arrived.few):
        order = arrived.sort(batch.ended_by, progress)
    states = state_tables.entity_states(run.entities, entries)
    told = set(order.summary.first_at)
    recorded = (told | states.keys()) - layouts.keys()
    known_layouts = {**layouts, **{entity: recorded_layout(run, entity) for entity in recorded}}
    plan = plan_batch(
        progress,
        batch,
        admission,
        order.summary,
        states,
        known_layouts,
        new_entities=run.new_entities,
    )
    released = released_events(run, arrived, order)
    # A change of all records of a prefix may touch many records.
    is_small = arrived.few and not any(one.prefix_updates for one in plan.entities.values())
    record_identities = partial(_record_identities, run, batch, progress, released, arrived, order)
    with few_rows(state.spark, few=is_small), beside(record_identities):
        found = _fold_all(run, plan, known_layouts, released, told, entries)
    run.ensure_writer()
    before()
    for one in found:
        state.make_entity(one.entity, one.folding.layout, history=run.history)
    commits = _commits(run, plan, states, found)
    commits.open_transaction(open_transaction(run, arrived, order))
    new = {entity: None for entity in plan.entities if entity not in run.entities}
    after = replace(plan.progress, open_from=order.open_from, deletions=run.deletions)
    commits.add("applied_through", partial(run.advance, progress_text.to_text(after), new))
    written = commits.run()
    return {
        **_counts(found),
        "open_events": order.open_events,
        "repeated": order.repeated,
        **entries_left(state.entries() if state_tables.RESYNC in written else entries),
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
    is_last = progress is not None and (progress.epoch, progress.batch_number) == (
        batch.epoch,
        batch.batch_number,
    )
    return {
        **_counts([]),
        "open_events": _open_events(run.state, progress) if is_last else 0,
        "repeated": 0,
        **entries_left(run.state.entries()),
    }


def _open_events(state: StateTables, progress: Progress | None) -> int:
    if progress is None:
        return 0
    is_open, _ = open_conditions((progress.generation, progress.batch_number), progress)
    return int(state.set_aside(tables.OPEN_TRANSACTION).where(is_open).count())


def recorded_layout(run: ApplyRun, entity: str) -> Layout:
    """The columns of an entity's table that come from fields."""
    return layout_of(run.state.types(entity).columns)


def layout_of(columns: Iterable[Column]) -> Layout:
    """Return the columns of an entity's table: those of its event type without the header."""
    return Layout(columns=tuple(one for one in columns if one.field != HEADER))


def _record_identities(
    run: ApplyRun,
    batch: ChangeBatch,
    progress: Progress | None,
    released: Released,
    arrived: Arrived,
    order: Ordered,
) -> None:
    if order.identified:
        rows = new_identities(released, arrived, order)
        commit(run, state_tables.SEEN, partial(see, run, batch, progress, rows))


def _fold_all(
    run: ApplyRun,
    plan: ApplyPlan,
    layouts: Mapping[str, Layout],
    released: Released,
    told: set[str],
    entries: Mapping[str, EntityResync],
) -> list[EntityOutcomes]:
    folds = (
        _folded(run, plan, entity, layouts, released, told, entries)
        for entity in sorted(plan.entities)
    )
    try:
        return [one for one in folds if one is not None]
    except Exception:
        # Another run that has taken the tables has removed the files of this one.
        run.ensure_writer()
        raise


def _folded(
    run: ApplyRun,
    plan: ApplyPlan,
    entity: str,
    layouts: Mapping[str, Layout],
    released: Released,
    told: set[str],
    entries: Mapping[str, EntityResync],
) -> EntityOutcomes | None:
    """Fold an entity's events into its records; None if no record is touched."""
    wide = plan.entities[entity]
    if entity not in told and not wide.prefix_updates:
        return None
    layout = layouts[entity]
    touched = released.touched(entity)
    folding = Folding(
        layout=layout,
        deletions=run.deletions,
        entry=wide.state.entry,
        prefix_updates=wide.prefix_updates,
        history=run.history,
        fields=touched.fields.union(*(one.fields for one in wide.prefix_updates)),
    )
    prefixes = sorted({one for change in wide.prefix_updates for one in change.addressed.prefixes})
    few = touched.ids is not None and not prefixes
    rows = acted(
        run.state.spark,
        known(run.state, entity, touched, folding, entries, prefixes=prefixes),
        partial(folded, folding, plan.progress, wide.state.read_at),
        outcome_sql(folding),
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
