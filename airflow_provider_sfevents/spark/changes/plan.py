"""Plan of a batch: the driver's decisions before any record is touched.

The plan follows from a summary of the events and from the entities' states.

The summary can be made from the events themselves, as here, or by a few aggregates where they are
spread over a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.entity import (
    EntityPlan,
    EntityState,
    plan_entity,
    unseeded,
)
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.changes.source import (
    Admission,
    Break,
    ChangeBatch,
    Progress,
    advanced,
    is_suspect,
    opening,
)
from airflow_provider_sfevents.spark.changes.transactions import Event, Ready, about_entities

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.entity import NewEntities
    from airflow_provider_sfevents.spark.changes.event import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a batch's events, for the driver's decisions.

    :param first: commit time of the first event that arrived, and whether it is a repeat; None:
        none arrived.
    :param high_water: latest commit time among the released events; None: there are none.
    :param first_at: commit time of each entity's first released event.
    :param about_entities: parts of released events that are about an entity, overflows at their
        transactions' end. Those without an entity's name are about all entities.
    """

    first: tuple[datetime, bool] | None = None
    high_water: datetime | None = None
    first_at: Mapping[str, datetime] = field(default_factory=dict)
    about_entities: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPlan:
    """Decisions about a batch that do not depend on its records.

    :param progress: to be written when all tables are.
    :param entities: of every entity of the source, also of those without an event in the batch.
    """

    progress: Progress
    entities: Mapping[str, EntityPlan]


def summarised(arrived: Sequence[Event], ready: Ready[Event]) -> Summary:
    """Make the summary of events that the driver has at hand.

    :param arrived: the batch's own events, without those held from the batch before.
    """
    first = min(arrived, key=lambda one: one.order, default=None)
    repeated = {one.order for one in ready.repeats}
    first_at: dict[str, datetime] = {}
    for change in ready.released:
        if change.entity:
            first_at.setdefault(change.entity, change.committed_at)
    return Summary(
        first=None if first is None else (first.committed_at, first.order in repeated),
        high_water=max((one.committed_at for one in ready.released), default=None),
        first_at=first_at,
        about_entities=about_entities(ready.released),
    )


def check_first_batch(
    progress: Progress | None, batch: ChangeBatch, new_entities: NewEntities
) -> None:
    """Refuse `new_entities='empty'` if earlier batches of the position were not applied.

    :raises ConfigurationError: the first batch to apply is not the first of its position.
    """
    if progress is None and new_entities == "empty" and batch.batch_number != 1:
        raise ConfigurationError(
            f"The first batch that is applied is {batch.epoch}-{batch.batch_number}: events came "
            "before "
            "it, so its entities are not empty. Apply from batch 1 on, or fill the tables from an "
            "entity snapshot (`new_entities` = unseeded)."
        )


def plan_batch(
    progress: Progress | None,
    batch: ChangeBatch,
    admission: Admission,
    summary: Summary,
    entities: Mapping[str, EntityState],
    layouts: Mapping[str, Layout],
    *,
    new_entities: NewEntities = "unseeded",
) -> ApplyPlan:
    """Decide all that is not about single records.

    :param entities: that the source's tables have, by name.
    :param layouts: of the entities' tables as they will be after the batch.
    """
    opened = opening(progress, batch, admission, summary.first)
    after = advanced(
        progress,
        batch,
        admission,
        opened,
        first_at=summary.first[0] if summary.first else None,
        high_water=summary.high_water,
    )
    wide = [_told(one, opened.last_break) for one in summary.about_entities]
    nameless = [one for one in wide if not one.entity]
    if nameless:
        # They may be of any entity, also of one that is not known yet.
        heard_since = max(after.heard_since, *(one.committed_at for one in nameless))
        after = replace(after, is_whole=False, heard_since=heard_since)
    known = dict(entities)
    for entity, first_at in summary.first_at.items():
        if entity not in known:
            is_empty = new_entities == "empty" and after.is_whole
            known[entity] = EntityState(entity=entity) if is_empty else unseeded(entity, first_at)
    plans = {
        entity: plan_entity(
            state,
            opened.entry,
            [*nameless, *(one for one in wide if one.entity == entity)],
            layouts.get(entity, Layout(columns=())),
        )
        for entity, state in known.items()
    }
    return ApplyPlan(progress=after, entities=plans)


def of_records(released: Iterable[Change], progress: Progress) -> Iterator[tuple[str, str, Change]]:
    """Yield entity, record id and event for every record that a released event names.

    :param progress: as after the batch; decides which events are suspect.
    """
    for change in released:
        part, _ = change.parts()
        if part is None:
            continue
        told = _told(part, progress.last_break)
        for record_id in told.addressed.records:
            yield told.entity, record_id, told


def for_record(record_id: str, wide: Iterable[Change]) -> list[Change]:
    """Pick the changes of a whole prefix that a record's id begins with."""
    return [
        one
        for one in wide
        if any(record_id.startswith(prefix) for prefix in one.addressed.prefixes)
    ]


def _told(change: Change, last_break: Break | None) -> Change:
    """Return the event, marked if it is suspect."""
    is_so = is_suspect(last_break, change.order, change.committed_at)
    return replace(change, suspect=True) if is_so else change
