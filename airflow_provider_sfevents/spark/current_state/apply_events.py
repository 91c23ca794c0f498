"""A batch's events into the tables of a run: sorted and planned by the driver, folded on the executors, committed in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.changes import progress_text, tables
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.changes.plan import BatchPlan, plan_batch
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.event_intake import holding, released_events, see
from airflow_provider_sfevents.spark.current_state.event_rows import EVENTS_SQL
from airflow_provider_sfevents.spark.current_state.fold_outcomes import Found, counted
from airflow_provider_sfevents.spark.current_state.fold_records import Folding, folded, outcome_sql
from airflow_provider_sfevents.spark.current_state.frames import acted
from airflow_provider_sfevents.spark.current_state.known_records import known
from airflow_provider_sfevents.spark.current_state.state_commits import Commits
from airflow_provider_sfevents.spark.current_state.state_tables import progress_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_provider_sfevents.spark.changes.source import Admission, Batch, Progress
    from airflow_provider_sfevents.spark.current_state.apply_run import Run
    from airflow_provider_sfevents.spark.current_state.event_intake import Arrived, Released
    from airflow_provider_sfevents.spark.current_state.state_tables import EntityMarks
    from airflow_provider_sfevents.spark.schema.field_types import Column


def apply_events(
    run: Run,
    batch: Batch,
    admission: Admission,
    arrived: Arrived,
    layouts: Mapping[str, Layout],
    *,
    before: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Apply a batch that is admitted.

    :param layouts: of the entities that the batch has events of, as their tables will be; of others the recorded columns count.
    :param before: called when all is decided and nothing is written.
    """
    state = run.state
    run.take()
    order = arrived.look((admission.generation, batch.sequence), batch.ended_by)
    marks = state.marks()
    states = state.entity_states(marks)
    told = set(order.summary.first_at)
    known_layouts = {
        entity: layouts[entity] if entity in layouts else recorded_layout(run, entity)
        for entity in told | states.keys()
    }
    plan = plan_batch(
        progress_of(run.progress),
        batch,
        admission,
        order.summary,
        states,
        known_layouts,
        new_entities=run.new_entities,
    )
    released = released_events(run, arrived, order)
    found = [
        one
        for entity in sorted(plan.entities)
        if (one := _folded(run, plan, entity, known_layouts, released, told)) is not None
    ]
    run.ensure_writer()
    before()
    for one in found:
        state.make_entity(one.entity, one.layout, history=run.history)
    commits = Commits(run, found)
    commits.of_records()
    commits.kept({entity: wide.kept for entity, wide in plan.entities.items()})
    commits.resync(
        {
            entity: wide.state.mark
            for entity, wide in plan.entities.items()
            if wide.state.mark is not None
            and wide.state.mark != (states[entity].mark if entity in states else None)
        },
        gone={},
    )
    commits.unapplied([one for wide in plan.entities.values() for one in wide.quarantined])
    commits.entities({entity: None for entity in plan.entities if entity not in states})
    if order.identified:
        commits.add("seen", partial(see, run, batch, released, arrived))
    if order.added or order.gone:
        commits.add("held", holding(run, arrived, order))
    commits.add("applied_through", partial(_advance, run, plan.progress))
    written = commits.run(tables.APPLY_ORDER)
    return {
        **_counts(found),
        "held": order.held,
        "repeated": len(order.repeats),
        **marks_left(state.marks() if state_tables.RESYNC in written else marks),
    }


def standing(run: Run, batch: Batch) -> dict[str, int]:
    """What the tables say of a batch that was applied before."""
    progress = progress_of(run.progress)
    is_last = progress is not None and (progress.epoch, progress.sequence) == (
        batch.epoch,
        batch.sequence,
    )
    return {
        **_counts([]),
        "held": run.state.rows(state_tables.HELD, EVENTS_SQL).count() if is_last else 0,
        "repeated": 0,
        **marks_left(run.state.marks()),
    }


def recorded_layout(run: Run, entity: str) -> Layout:
    """The columns of an entity's table that come from fields."""
    return layout_of(run.state.types(entity).columns)


def layout_of(columns: Iterable[Column]) -> Layout:
    """Those of an event type's columns that an entity's table has."""
    return Layout(columns=tuple(one for one in columns if one.field != HEADER))


def _folded(
    run: Run,
    plan: BatchPlan,
    entity: str,
    layouts: Mapping[str, Layout],
    released: Released,
    told: set[str],
) -> Found | None:
    """Fold an entity's events; None where no record is touched."""
    wide = plan.entities[entity]
    if entity not in told and not wide.prefix_updates:
        return None
    layout = layouts[entity]
    folding = Folding(
        layout=layout,
        deletions=run.deletions,
        mark=wide.state.mark,
        prefix_updates=wide.prefix_updates,
        history=run.history,
    )
    prefixes = sorted({one for change in wide.prefix_updates for one in change.addressed.prefixes})
    touched = released.touched(entity)
    few = touched.ids is not None and not prefixes
    rows = acted(
        run.state.spark,
        known(run.state, entity, touched, folding, prefixes=prefixes),
        partial(folded, folding, plan.progress, wide.state.read_at),
        outcome_sql(folding),
        f"{run.folder}/{entity}",
        few=few,
    )
    return Found(entity=entity, layout=layout, rows=rows, counts=counted(rows), few=few)


def _advance(run: Run, progress: Progress) -> None:
    run.advance(progress_text.to_text(replace(progress, deletions=run.deletions)))


def _counts(found: Sequence[Found]) -> dict[str, int]:
    """What became of events, one for each record that an event names."""
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


def marks_left(marks: Mapping[str, EntityMarks]) -> dict[str, int]:
    """How many marks there are."""
    return {
        "marked_records": sum(one.records for one in marks.values()),
        "marked_entities": sum(one.whole is not None for one in marks.values()),
    }
